// 0: d, dmin float16; 4: scales and minimums; 16: bit k of byte j is the top bit of q[j + 32 k];
// 48: 64 weights in 32 bytes, byte j holds q[j] low, q[j + 32] high.
#define SPAN 32u
#define GROUP 4u
#define SHIFTED 1
// The code in the middle.
#define MIDDLE 16u
// Where a chunk's high bits are in tiles.
#define HIGH_AT(c) 0u
#define HIGH_SHIFT(c) (2u * (c))

#use packed k_scales

FN u32 unit_at(u32 u) { return 64u * (u / 8u) + 4u * (u % 8u); }

FN u2 word_codes(u32 low, u32 high) {
  return U2((low & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4),
            ((low >> 4) & 0x0f0f0f0fu) | (((high >> 1) & 0x01010101u) << 4));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  const u32 top = word_at(b, at + 16u + 4u * (u % 8u)) >> (2u * (u / 8u));
  return word_codes(word_at(b, at + 48u + 4u * u), top);
}

FN void packed_group(ARGS, Bytes b, u32 at, u32 first, PRIVATE u2 *out) {
  const u4 top = words_at(b, at + 16u + 4u * (first % 8u)) >> (2u * (first / 8u));
  const u4 q = words_at(b, at + 48u + 4u * first);
  store_group((q & 0x0f0f0f0fu) | ((top & 0x01010101u) << 4u),
              ((q >> 4u) & 0x0f0f0f0fu) | (((top >> 1u) & 0x01010101u) << 4u), out);
}
