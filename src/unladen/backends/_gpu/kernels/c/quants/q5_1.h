// 0: d, m float16; 4: bit i is bit 4 of q[i]; 8: byte j holds q[j] low, q[j + 16] high.
#define SPAN 16u
#define GROUP 4u
#define SHIFTED 1

#use packed packed_each dm_scales

FN u32 unit_at(u32 u) { return 4u * u; }

// In tiles the high bits stay with the scales: those of unit u of a block, lo and hi in a word.
#define HIGH_ASIDE

FN u32 high_bits(Bytes b, u32 at, u32 u) {
  const u32 high = word_at(b, at + 4u);
  return spread(high, 4u * u) | (spread(high, 4u * u + 16u) << 1);
}

FN u2 word_codes(u32 low, u32 high) {
  return U2((low & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4),
            ((low >> 4) & 0x0f0f0f0fu) | (((high >> 1) & 0x01010101u) << 4));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 8u + 4u * u), high_bits(b, at, u));
}
