#use grids
#grid iq1s
// 0: low 8 bits of the indices; 32: for each index a nibble of its high 3 bits and the sign of its
// shift; 48: four times four scales of 3 bits, and a quarter of d float16 in the top 4 bits.
#define SPAN 4u
#define GROUP 2u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 low = word_at(b, at + 48u);
  const u32 high = word_at(b, at + 52u);
  const float d = f16_to_f32(((low >> 12) & 0xfu) | ((low >> 24) & 0xf0u) | ((high >> 4) & 0xf00u)
                             | ((high >> 16) & 0xf000u));
  const u32 rest = half_bits(b, at + 48u + 2u * (u / 8u));
  const float s = d * (float)(2u * ((rest >> (3u * ((u / 2u) % 4u))) & 7u) + 1u);
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 nibble = (byte_at(b, at + 32u + u / 2u) >> (4u * (u % 2u))) & 15u;
  const float shift = nibble >= 8u ? -0.125f : 0.125f;
  Codes c = entry8(args, byte_at(b, at + u) | ((nibble & 7u) << 8), 0u);
  c.lo = c.lo + shift;
  c.hi = c.hi + shift;
  return c;
}
