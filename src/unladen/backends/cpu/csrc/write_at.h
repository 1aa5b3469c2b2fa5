// Writes at an offset of a file while other threads write elsewhere in it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::cpu {

// Writes all of n_bytes at `offset` of descriptor `file`. Returns 0, or the errno of what failed.
int write_at(int file, const uint8_t *bytes, size_t n_bytes, int64_t offset);

}  // namespace unladen::cpu
