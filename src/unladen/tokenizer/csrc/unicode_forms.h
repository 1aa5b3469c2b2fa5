// Forms of characters: canonical decompositions and lower case, by Unicode's own tables.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace unladen::tok {

// Appends the canonical decomposition of `code`.
void append_decomposed(uint32_t code, std::vector<uint32_t> &out);
// Sorts the marks after each character into canonical order. With append_decomposed this makes NFD.
void order_marks(std::span<uint32_t> codes);
// Appends the lower case of `code`, which doesn't depend on its neighbours here.
void append_lower(uint32_t code, std::vector<uint32_t> &out);

}  // namespace unladen::tok
