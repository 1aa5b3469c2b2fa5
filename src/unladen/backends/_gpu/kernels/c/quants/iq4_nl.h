// 0: d float16; 2: byte j holds q[j] low, q[j + 16] high, of 16 uneven levels.
FN u32 level_word(u32 i) {
  return i < 2u ? (i == 0u ? 0xbfad9881u : 0xf6eaddcfu) : (i == 2u ? 0x26190d01u : 0x71594535u);
}

#define SPAN 16u
#define GROUP 4u
#define SHIFTED 0

#use packed packed_each levels d_scales

FN u32 unit_at(u32 u) { return 4u * u; }

FN u2 word_codes(u32 low, u32 high) {
  return two_levels(low);
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 2u + 4u * u), 0u);
}
