#include "backends/cpu/csrc/ops/operations.h"

#include <stdexcept>

namespace unladen::cpu {
namespace {

struct Registry {
    std::map<std::string, OperationKind> kinds;
    std::string twice;  // an op that was registered again
};

// Filled before main(), where an exception would end the process without a message.
Registry &registry() {
    static Registry all;
    return all;
}

}  // namespace

void register_operation(const char *op, OperationKind kind) {
    if (!registry().kinds.emplace(op, kind).second) registry().twice = op;
}

const std::map<std::string, OperationKind> &operation_kinds() {
    const std::string &twice = registry().twice;
    if (!twice.empty()) throw std::logic_error("two files of csrc/ops/ register " + twice);
    return registry().kinds;
}

const OperationKind &operation_kind(const std::string &op) {
    const auto &kinds = operation_kinds();
    const auto found = kinds.find(op);
    if (found == kinds.end())
        throw std::invalid_argument("no file of csrc/ops/ registers the op " + op);
    return found->second;
}

std::string refusal(const Node &node) {
    const OperationKind &kind = operation_kind(node.op);
    if (!kind.fits || kind.fits(node)) return "";
    return "the CPU's kernel of " + node.op + " takes " + kind.limit() + ": " + node.name +
           " is another one";
}

}  // namespace unladen::cpu
