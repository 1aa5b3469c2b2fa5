// For formats whose codes of 4 bits name one of 16 uneven levels. level_word(i) has four of these
// as int8.

FN u32 level(u32 code) { return (level_word(code >> 2) >> (8u * (code & 3u))) & 255u; }

// The levels that four codes name, one code in each byte.
FN u32 levels(u32 codes) {
  return level(codes & 15u) | (level((codes >> 8) & 15u) << 8) | (level((codes >> 16) & 15u) << 16)
         | (level((codes >> 24) & 15u) << 24);
}

// The levels that the low halves of four bytes name, and those that the high halves name.
#ifdef permute_bytes
FN u32 four_levels(u32 codes, u32 upper) {
  const u32 first = permute_bytes(level_word(0u), level_word(1u), codes);
  const u32 last = permute_bytes(level_word(2u), level_word(3u), codes);
  return permute_bytes(first, last, upper);
}

FN u2 two_levels(u32 bytes) {
  // Three bits choose among eight levels, and the fourth between the first and the last eight.
  const u32 codes = bytes & 0x77777777u, upper = 0x32103210u | ((bytes & 0x88888888u) >> 1);
  const u32 low = four_levels(codes, upper), high = four_levels(codes >> 16, upper >> 16);
  return U2(permute_bytes(low, high, 0x6420u), permute_bytes(low, high, 0x7531u));
}
#endif
#ifndef permute_bytes
FN u2 two_levels(u32 bytes) {
  return U2(levels(bytes & 0x0f0f0f0fu), levels((bytes >> 4) & 0x0f0f0f0fu));
}
#endif
