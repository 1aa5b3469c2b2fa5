// Passes over the strings of a header; typed in _native/gguf.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

uint64_t read_u64(const uint8_t *p, bool big) {
    uint64_t value;
    std::memcpy(&value, p, sizeof value);
    return big == (std::endian::native == std::endian::big) ? value : __builtin_bswap64(value);
}

// Offsets of the strings' lengths, and of what follows the last; fewer where they leave the buffer.
std::vector<int64_t> scan(const uint8_t *data, uint64_t size, uint64_t pos, uint64_t n, bool big) {
    std::vector<int64_t> starts;
    // A string takes at least its length, so a lie about n reserves no more than the buffer's size.
    starts.reserve(std::min(n, size / 8) + 1);
    for (uint64_t i = 0; i <= n; i++) {
        starts.push_back(static_cast<int64_t>(pos));
        if (i == n) break;
        if (size - pos < 8) break;
        uint64_t length = read_u64(data + pos, big);
        if (length > size - pos - 8) break;
        pos += 8 + length;
    }
    return starts;
}

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
