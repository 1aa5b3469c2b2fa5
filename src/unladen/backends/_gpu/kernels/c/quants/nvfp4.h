// 0: four scales of 8 bits (E4M3, no sign); 4: 16 weights in 8 bytes, byte j holds q[j] low,
// q[j + 8] high.
#define SPAN 8u
#define GROUP 2u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 16u * (u / 2u) + 4u * (u % 2u); }

// Twice the E2M1 number of a code of 4 bits.
FN float level(u32 code) {
  const float size = (float)((0xc8643210u >> (4u * (code & 7u))) & 15u);
  return (code & 8u) != 0u ? -size : size;
}

// The numbers of four codes, one in the low half of each byte.
FN f4 levels(u32 codes) {
  return F4(level(codes), level(codes >> 8), level(codes >> 16), level(codes >> 24));
}

// Half of what the scale's byte means, since a level is twice its number; 0x7f is E4M3's NaN and
// counts as zero.
FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 code = byte_at(b, at + u / 2u);
  const u32 exponent = (code >> 3) & 15u;
  const u32 mantissa = (code & 7u) + (exponent > 0u ? 8u : 0u);
  const float power = as_f32((max_u32(exponent, 1u) + 116u) << 23);
  const float s = code == 0x7fu ? 0.0f : (float)mantissa * power;
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = word_at(b, at + 4u + 4u * u);
  Codes c;
  c.lo = levels(q);
  c.hi = levels(q >> 4);
  return c;
}
