#use grids
#grid iq1s
// 0: d float16; 2: low 8 bits of the indices; 34: for each run of 32 the high 3 bits of its four
// indices, the scale in bits 12 to 14, and the sign of the shift in bit 15.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 rest = half_bits(b, at + 34u + 2u * (u / 4u));
  const float s = half_at(b, at) * (float)(2u * ((rest >> 12) & 7u) + 1u);
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 rest = half_bits(b, at + 34u + 2u * (u / 4u));
  const u32 index = byte_at(b, at + 2u + u) | (((rest >> (3u * (u % 4u))) & 7u) << 8);
  const float shift = rest >= 0x8000u ? -0.125f : 0.125f;
  Codes c = entry8(args, index, 0u);
  c.lo = c.lo + shift;
  c.hi = c.hi + shift;
  return c;
}
