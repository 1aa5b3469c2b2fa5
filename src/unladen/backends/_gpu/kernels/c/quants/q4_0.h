// 0: d float16; 2: byte j holds q[j] low, q[j + 16] high.
#define SPAN 16u
#define GROUP 4u
#define SHIFTED 0
#define ZERO 8u

#use packed d_scales

FN u32 unit_at(u32 u) { return 4u * u; }

FN u2 word_codes(u32 low, u32 high) {
  return U2(less_zero(low & 0x0f0f0f0fu), less_zero((low >> 4) & 0x0f0f0f0fu));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 2u + 4u * u), 0u);
}

FN void packed_group(ARGS, Bytes b, u32 at, u32 first, PRIVATE u2 *out) {
  const u4 q = words_at(b, at + 2u + 4u * first);
  store_group(minus_each4(q & 0x0f0f0f0fu, 0x08080808u),
              minus_each4((q >> 4u) & 0x0f0f0f0fu, 0x08080808u), out);
}
