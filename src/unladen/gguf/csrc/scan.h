// Finds where the strings of a header begin.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace unladen {

inline uint64_t read_u64(const uint8_t *p, bool big) {
    uint64_t value;
    std::memcpy(&value, p, sizeof value);
    return big == (std::endian::native == std::endian::big) ? value : __builtin_bswap64(value);
}

// Returns the offset of each string's length and the offset behind the last string; fewer offsets
// where a string leaves the buffer.
inline std::vector<int64_t> scan(const uint8_t *data, uint64_t size, uint64_t pos, uint64_t n,
                                 bool big) {
    std::vector<int64_t> starts;
    // Each string takes at least 8 bytes for its length, so a false n can't reserve more memory
    // than the buffer has.
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

}  // namespace unladen
