// Passes over the strings of a header; typed in _native/gguf.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "gguf/csrc/scan.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object string_starts(Bytes buffer, uint64_t pos, uint64_t n, bool big) {
    if (pos > buffer.shape(0)) throw nb::value_error("begins behind the buffer");
    auto *starts = new std::vector<int64_t>(
        scan(buffer.data(), buffer.shape(0), pos, n, big));
    nb::capsule owner(starts, [](void *p) noexcept {
        delete static_cast<std::vector<int64_t> *>(p);
    });
    size_t shape[] = {starts->size()};
    return nb::cast(nb::ndarray<nb::numpy, int64_t>(starts->data(), 1, shape, owner));
}

}  // namespace

void bind_gguf(nb::module_ &m) {
    m.def("string_starts", &string_starts, "buffer"_a, "pos"_a, "n"_a, "big_endian"_a);
}

}  // namespace unladen
