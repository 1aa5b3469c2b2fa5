// For formats whose codes of 4 bits name one of 16 uneven levels. level_word(i) has four of these
// as int8.

FN u32 level(u32 code) { return (level_word(code >> 2) >> (8u * (code & 3u))) & 255u; }

// The levels that four codes name, one code in each byte.
FN u32 levels(u32 codes) {
  return level(codes & 15u) | (level((codes >> 8) & 15u) << 8) | (level((codes >> 16) & 15u) << 16)
         | (level((codes >> 24) & 15u) << 24);
}
