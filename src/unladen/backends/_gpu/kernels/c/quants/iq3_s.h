#use grids
#grid iq3s
// 0: d float16; 2: low 8 bits of the indices of four weights each; 66: bit 8 of the indices; 74: a
// sign bit for each weight; 106: scale of 4 bits, low nibble first.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 nibble = (byte_at(b, at + 106u + u / 8u) >> (4u * ((u / 4u) % 2u))) & 15u;
  const float s = half_at(b, at) * (float)(2u * nibble + 1u);
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 high = byte_at(b, at + 66u + u / 4u) >> (2u * (u % 4u));
  const u32 pair = half_bits(b, at + 2u + 2u * u);
  return entries4(args, (pair & 255u) | ((high & 1u) << 8), (pair >> 8) | ((high & 2u) << 7),
                  byte_at(b, at + 74u + u));
}
