// 0: d, dmin float16; 4: scales and minimums; 16: 64 weights in 32 bytes, byte j holds q[j] low,
// q[j + 32] high.
#define SPAN 32u
#define GROUP 4u
#define SHIFTED 1
// The code in the middle.
#define MIDDLE 8u

#use packed k_scales

FN u32 unit_at(u32 u) { return 64u * (u / 8u) + 4u * (u % 8u); }

FN u2 word_codes(u32 low, u32 high) { return U2(low & 0x0f0f0f0fu, (low >> 4) & 0x0f0f0f0fu); }

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 16u + 4u * u), 0u);
}

FN void packed_group(ARGS, Bytes b, u32 at, u32 first, PRIVATE u2 *out) {
  const u4 q = words_at(b, at + 16u + 4u * first);
  store_group(q & 0x0f0f0f0fu, (q >> 4u) & 0x0f0f0f0fu, out);
}
