// Moving weights to memory that is read faster.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/huge_pages.h"
#include "backends/cpu/csrc/ops/interleaving.h"
#include "csrc/gil.h"

namespace nb = nanobind;

namespace unladen::cpu {
namespace {

using Stretch = std::pair<uintptr_t, size_t>;
template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const uint8_t *pointer(uintptr_t address) { return reinterpret_cast<const uint8_t *>(address); }

std::vector<Stretch> stretches(const std::vector<std::pair<const uint8_t *, size_t>> &all) {
    std::vector<Stretch> found;
    for (auto [rows, n_bytes] : all)
        found.emplace_back(reinterpret_cast<uintptr_t>(rows), n_bytes);
    return found;
}

// Returns the result of `call`, which runs without the GIL. Errors of the system become OSError.
template <class Call>
auto asking_the_system(Call call) {
    try {
        const Unlocked unlocked;
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
    for (uintptr_t address : addresses) from.push_back(pointer(address));
    asking_the_system([&] { interleaving.start(from); });
}

std::vector<Stretch> advance(Interleaving &interleaving, size_t n_bytes) {
    return stretches(asking_the_system([&] { return interleaving.advance(n_bytes); }));
}

std::tuple<size_t, size_t, size_t> layout(Interleaving &interleaving, uintptr_t address) {
    const InterleavedCopy &copy = interleaving.at(pointer(address));
    return {copy.row_bytes(), copy.row_rest_bytes(), copy.n_known()};
}

void check_sizes(const InterleavedCopy &copy, size_t n_bytes, size_t n_known) {
    if (n_bytes != copy.n_bytes || n_known != copy.n_known())
        throw std::invalid_argument("arrays of other sizes than the rows and what is known need");
}

void pack(Interleaving &interleaving, uintptr_t address, Array<uint8_t> to, Array<float> known) {
    check_sizes(interleaving.at(pointer(address)), to.size(), known.size());
    const Unlocked unlocked;
    interleaving.pack(pointer(address), to.data(), known.data());
}

void adopt(Interleaving &interleaving, uintptr_t address, Array<const uint8_t> to,
           Array<const float> known) {
    check_sizes(interleaving.at(pointer(address)), to.size(), known.size());
    interleaving.adopt(pointer(address), to.data(), known.data());
}

bool copy_into_huge_pages_at(uintptr_t address, size_t n) {
    return asking_the_system(
        [=] { return copy_into_huge_pages(reinterpret_cast<uint8_t *>(address), n); });
}

}  // namespace

void bind_moving(nb::module_ &m) {
    m.attr("HUGE_PAGE_BYTES") = huge_page_bytes;
    m.attr("PACKED_LAYOUT") = packed_layout;
    m.def("copy_into_huge_pages", &copy_into_huge_pages_at);
    nb::class_<Interleaving>(m, "Interleaving")
        .def("wanted", &wanted)
        .def("start", &start)
        .def("advance", &advance)
        .def("layout", &layout)
        .def("pack", &pack)
        .def("adopt", &adopt);
}

}  // namespace unladen::cpu
