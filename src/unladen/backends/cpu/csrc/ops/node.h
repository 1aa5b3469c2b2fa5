// A node of the graph with the addresses of its data. Operations are made from nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backends/cpu/csrc/program.h"

namespace unladen::cpu {

// An input or an output: an array of 4-byte numbers, one row of n_cols for each token or output.
struct Value {
    uintptr_t address;
    std::string type;    // "f32" or "i32"
    std::string rows;    // "T": a row for each token of the step; "S": for each of its outputs;
                         // "R": for each row that the caller brings
    int n_cols;
};

// A weight, slowest dimension first, in whole blocks of the format `type`.
struct Tensor {
    uintptr_t address;
    std::string type;
    std::vector<int64_t> shape;
};

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<double>>;

// The recurrent state of one node: slots of `size` floats.
struct Slots {
    float *data;
    size_t size;
    float *at(int slot) const { return data + slot * size; }
};

// Work that a node does for its neighbours in the program, so that less is stored between them. An
// operation that can't do it refuses the node.
struct Joined {
    // An RMS norm of whole rows, computed on the first input before anything else.
    struct Norm {
        uintptr_t w;  // [n_cols] or 0
        float eps;
    };
    // The first output is rounded for the product that alone reads it: the format of that product's
    // weight, and the bytes for the output.
    struct Reader {
        std::string type;
        size_t n_bytes;
    };
    bool is_packed = false;  // the first input is rounded already
    std::optional<Norm> norm;
    std::optional<Reader> reader;
    bool is_chosen_from = false;  // argmax reads the output

    bool is_any() const { return is_packed || norm || reader || is_chosen_from; }
};

struct Node {
    std::string op, name;
    std::vector<Value> inputs, outputs;
    std::map<std::string, Tensor> weights;  // by role
    std::map<std::string, Attribute> attributes;
    std::optional<Slots> slots;
    std::optional<KVView> kv;
    int first_column = 0;  // column of the block table where the blocks of kv begin
    uintptr_t scratch;  // memory of the size that scratch_bytes() gives
    Joined joined;
};

}  // namespace unladen::cpu
