#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "engine/csrc/lookup.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace unladen {
namespace {

using engine::Lookup;

// The chances after what `tokens` has beyond what was seen of it.
std::vector<double> chances(Lookup &lookup, nb::list tokens, size_t n) {
    for (size_t i = lookup.size(); i < tokens.size(); ++i)
        lookup.add(nb::cast<int32_t>(tokens[i]));
    return lookup.chances(n);
}

}  // namespace

void bind_engine(nb::module_ &m) {
    nb::class_<Lookup>(m, "Lookup")
        .def(nb::init<>())
        .def("chances", &chances, "tokens"_a, "n"_a)
        .def("draft", &Lookup::draft, "n"_a);
}

}  // namespace unladen
