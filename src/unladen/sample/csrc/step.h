// A native step, found by its opcode. A new step is one file with a Registered object.
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

using Parameters = std::vector<double>;  // as the Python step packs them
// A parameter as the nearest whole number that T holds.
template <class T>
T whole(double value) {
    using Limits = std::numeric_limits<T>;
    if (!(value > double(Limits::min()))) return Limits::min();
    return value >= double(Limits::max()) ? Limits::max() : T(value);
}

using Factory = std::unique_ptr<Step> (*)(const Parameters &);

std::map<std::string, Factory> &factories();

// Static objects of this type fill factories() while the module is loaded.
template <class T>
struct Registered {
    explicit Registered(const char *opcode) {
        factories()[opcode] = [](const Parameters &p) -> std::unique_ptr<Step> {
            return std::make_unique<T>(p);
        };
    }
};

}  // namespace unladen::sample
