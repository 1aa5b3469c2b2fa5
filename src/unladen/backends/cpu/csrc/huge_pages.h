// Memory of a mapped file in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::cpu {

constexpr size_t huge_page_bytes = size_t{2} << 20;

// Puts a copy in huge pages in the place of n bytes of a mapped file, both in whole huge pages; it
// can't be written to. Whoever reads there meanwhile finds the same bytes: a page that is missing
// for a moment is looked for when the exchange is over. False: not all of them are in memory, and
// nothing was done. Throws std::system_error where the system refuses.
bool copy_into_huge_pages(uint8_t *at, size_t n);

}  // namespace unladen::cpu
