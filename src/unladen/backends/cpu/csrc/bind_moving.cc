// Weights that move to where they are read fastest.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/huge_pages.h"
#include "backends/cpu/csrc/ops/interleaving.h"

namespace nb = nanobind;

namespace unladen::cpu {
namespace {

using Stretch = std::pair<uintptr_t, size_t>;

std::vector<Stretch> stretches(const std::vector<std::pair<const uint8_t *, size_t>> &all) {
    std::vector<Stretch> found;
    for (auto [rows, n_bytes] : all)
        found.emplace_back(reinterpret_cast<uintptr_t>(rows), n_bytes);
    return found;
}

// What it returns, without the GIL; refusals of the system become OSError.
template <class Call>
auto asking_the_system(Call call) {
    try {
        nb::gil_scoped_release released;
        return call();
    } catch (const std::system_error &error) {
        errno = error.code().value();
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, error.what());
        throw nb::python_error();
    }
}

std::vector<Stretch> wanted(const Interleaving &interleaving) {
    return stretches(interleaving.wanted());
}

void start(Interleaving &interleaving, const std::vector<uintptr_t> &addresses) {
    std::vector<const uint8_t *> from;
    for (uintptr_t address : addresses) from.push_back(reinterpret_cast<const uint8_t *>(address));
    asking_the_system([&] { interleaving.start(from); });
}

std::vector<Stretch> advance(Interleaving &interleaving, size_t n_bytes) {
    return stretches(asking_the_system([&] { return interleaving.advance(n_bytes); }));
}

bool copy_into_huge_pages_at(uintptr_t address, size_t n) {
    return asking_the_system(
        [=] { return copy_into_huge_pages(reinterpret_cast<uint8_t *>(address), n); });
}

}  // namespace

void bind_moving(nb::module_ &m) {
    m.attr("HUGE_PAGE_BYTES") = huge_page_bytes;
    m.def("copy_into_huge_pages", &copy_into_huge_pages_at);
    nb::class_<Interleaving>(m, "Interleaving")
        .def("wanted", &wanted)
        .def("start", &start)
        .def("advance", &advance);
}

}  // namespace unladen::cpu
