// 0: d, m float16; 4: byte j holds q[j] low, q[j + 16] high.
#define SPAN 16u
#define GROUP 4u
#define SHIFTED 1

#use packed packed_each dm_scales

FN u32 unit_at(u32 u) { return 4u * u; }

FN u2 word_codes(u32 low, u32 high) { return U2(low & 0x0f0f0f0fu, (low >> 4) & 0x0f0f0f0fu); }

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 4u + 4u * u), 0u);
}
