// The operations by op. Each op that runs on the CPU has one file here, with a struct that takes
// its fields from a node, and an object of type Registered.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/cpu/csrc/ops/builder.h"

namespace unladen::cpu {

struct OperationKind {
    // Adds what the node computes to a program.
    void (*add)(const Node &node, Builder &to);
    // Gives the bytes of working memory; nullptr: it needs none.
    size_t (*scratch_bytes)(const Node &node, const Sizing &sizing);
    // The nodes that it takes, in words, and whether it takes this one, whose addresses may be 0.
    // Both are nullptr if it takes all nodes.
    const char *(*limit)();
    bool (*fits)(const Node &node);
};

// All operations by op. Throws std::logic_error if two files register the same op.
const std::map<std::string, OperationKind> &operation_kinds();

// The operation for `op`. Throws std::invalid_argument if no file registers it.
const OperationKind &operation_kind(const std::string &op);

void register_operation(const char *op, OperationKind kind);

// Why the node can't be run; "" if it can.
std::string refusal(const Node &node);

// A T with fields from `node`. Throws if T doesn't take all of them.
template <class T>
T made_of(const Node &node) {
    Fields fields(node);
    T made(fields);
    fields.finish();
    return made;
}

// Static objects of this type enter an op while the program starts. T takes its fields in its
// constructor, T(Fields &), and has
//     void add(Builder &to) const
// and, where it needs them,
//     size_t scratch_bytes(const Sizing &sizing) const
//     static const char *limit() and bool fits() const
template <class T>
struct Registered {
    explicit Registered(const char *op) {
        OperationKind kind{};
        kind.add = [](const Node &node, Builder &to) { made_of<T>(node).add(to); };
        if constexpr (requires(const T &t, const Sizing &s) { t.scratch_bytes(s); })
            kind.scratch_bytes = [](const Node &node, const Sizing &sizing) {
                return made_of<T>(node).scratch_bytes(sizing);
            };
        if constexpr (requires(const T &t) { t.fits(); }) {
            kind.limit = [] { return T::limit(); };
            kind.fits = [](const Node &node) { return made_of<T>(node).fits(); };
        }
        register_operation(op, kind);
    }
};

}  // namespace unladen::cpu
