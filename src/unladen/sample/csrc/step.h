// The base class of native steps, which are found by opcode. A step is one file with a Registered
// object.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sample/csrc/candidates.h"
#include "sample/csrc/state.h"

namespace unladen::sample {

class Step {
public:
    virtual ~Step() = default;
    virtual void apply(Candidates &candidates, State &state) const = 0;
};

using Parameters = std::vector<double>;  // what packed() of the Python step returns
// The whole number nearest to a parameter that T can hold.
template <class T>
T whole(double value) {
    using Limits = std::numeric_limits<T>;
    if (!(value > double(Limits::min()))) return Limits::min();
    return value >= double(Limits::max()) ? Limits::max() : T(value);
}

using Factory = std::unique_ptr<Step> (*)(const Parameters &);

std::map<std::string, Factory> &factories();

// A static object of this type adds its step to factories() while the module is loaded.
template <class T>
struct Registered {
    explicit Registered(const char *opcode) {
        factories()[opcode] = [](const Parameters &p) -> std::unique_ptr<Step> {
            return std::make_unique<T>(p);
        };
    }
};

}  // namespace unladen::sample
