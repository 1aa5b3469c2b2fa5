// 0: exponent with bias 127; 1: byte j holds q[j] low, q[j + 16] high, of twice the E2M1 numbers.
FN u32 level_word(u32 i) {
  return i < 2u ? (i == 0u ? 0x03020100u : 0x0c080604u) : (i == 2u ? 0xfdfeff00u : 0xf4f8fafcu);
}

#define SPAN 16u
#define GROUP 4u
#define SHIFTED 0

#use packed packed_each levels

FN u32 unit_at(u32 u) { return 4u * u; }

// 2^(e - 128), half of what the exponent means, since a level is twice its number.
FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 e = byte_at(b, at);
  const float d = as_f32(e < 2u ? 0x200000u << e : (e - 1u) << 23);
  return F4(d, 0.0f, d, 0.0f);
}

FN u2 word_codes(u32 low, u32 high) {
  return two_levels(low);
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 1u + 4u * u), 0u);
}
