// Takes the fields of a node for an operation, each by its name and once. A node with a field that
// isn't taken is refused, so that an operation never ignores something that the graph means.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backends/cpu/csrc/names.h"
#include "backends/cpu/csrc/ops/node.h"

namespace unladen::cpu {

struct Input {
    const float *data = nullptr;
    Rows rows = Rows::tokens;
    int n_cols = 0;
    const float *row(int i) const { return data + static_cast<size_t>(i) * n_cols; }
};

struct IntInput {
    const int32_t *data = nullptr;
    Rows rows = Rows::tokens;
    int n_cols = 0;
};

struct Output {
    float *data = nullptr;
    Rows rows = Rows::tokens;
    int n_cols = 0;
    float *row(int i) const { return data + static_cast<size_t>(i) * n_cols; }
};

struct IntOutput {
    int32_t *data = nullptr;
};

// A weight of float32 numbers; n = 0: there is none.
struct Vector {
    const float *data = nullptr;
    int n = 0;
};

// A weight as rows of its last dimension: n_rows rows of n_cols, whole blocks of `type`; no rows:
// there is none.
struct Matrix {
    const uint8_t *data = nullptr;
    std::string type;
    int n_rows = 0, n_cols = 0;
    const float *bias = nullptr;  // [n_rows] or nullptr
    int n_stacked = 1;  // three dimensions: as many matrices, one after another, have the rows
    const struct InterleavedCopy *copy = nullptr;
};

// The fields of a node. Every function throws std::invalid_argument if the node lacks the field or
// has it with another type.
class Fields {
public:
    explicit Fields(const Node &node) : node_(node) {}

    // The next input or output that isn't taken yet, in the graph's order.
    Input input();
    IntInput int_input();
    Output output();
    IntOutput int_output();
    bool has_input() const { return next_input_ < node_.inputs.size(); }
    bool has_output() const { return next_output_ < node_.outputs.size(); }
    // All inputs that are left, except the last n_after.
    std::vector<Input> inputs(size_t n_after = 0);
    std::vector<Output> outputs();

    bool has_weight(const std::string &role) const { return node_.weights.count(role) > 0; }
    // The weight in a role. vector_if and matrix_if return an empty one if there is none.
    Vector vector(const std::string &role);
    Vector vector_if(const std::string &role);
    Matrix matrix(const std::string &role, const std::string &bias_role = {});
    Matrix matrix_if(const std::string &role, const std::string &bias_role = {});

    // The attribute `name`, or `otherwise` if the node doesn't have it.
    int integer(const std::string &name);
    int integer(const std::string &name, int otherwise);
    double number(const std::string &name);
    double number(const std::string &name, double otherwise);
    bool flag(const std::string &name, bool otherwise = false);
    std::vector<double> numbers(const std::string &name);
    bool has_attribute(const std::string &name) const { return node_.attributes.count(name) > 0; }
    template <class Enum>
    Enum choice(const std::string &name);
    template <class Enum>
    Enum choice(const std::string &name, Enum otherwise) {
        return has_attribute(name) ? choice<Enum>(name) : otherwise;
    }

    Slots slots();
    KVView kv();
    // Where the part of a row of the block table begins that has the blocks of kv().
    int first_column() const;
    uint8_t *scratch() const { return reinterpret_cast<uint8_t *>(node_.scratch); }
    const Joined &joined();

    // Throws std::invalid_argument with `what` unless the condition holds.
    void require(bool condition, const std::string &what) const;
    // Throws if a field of the node wasn't taken.
    void finish() const;

private:
    [[noreturn]] void refuse(const std::string &why) const;
    const Value &take_input(const char *type);
    const Value &take_output(const char *type);
    const Value &checked(const Value &value, const char *what, const char *type) const;
    const Attribute &attribute(const std::string &name);
    const std::string &text(const std::string &name);
    Rows rows_of(const Value &value) const;

    const Node &node_;
    size_t next_input_ = 0, next_output_ = 0;
    std::set<std::string> roles_, names_;  // taken, or asked for
    bool takes_slots_ = false, takes_kv_ = false, takes_joined_ = false;
};

template <class Enum>
Enum Fields::choice(const std::string &name) {
    const std::string &value = text(name);
    try {
        return named<Enum>(value);
    } catch (const std::invalid_argument &error) {
        refuse(error.what());
    }
}

}  // namespace unladen::cpu
