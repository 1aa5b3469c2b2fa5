#use grids
#grid iq2s
// 0: d float16; 2: low 8 bits of the indices; 34: a sign bit for each weight; 66: high 2 bits of
// the indices; 74: scale of 4 bits, low nibble first.
#define SPAN 4u
#define GROUP 2u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 nibble = (byte_at(b, at + 74u + u / 4u) >> (4u * ((u / 2u) % 2u))) & 15u;
  const float s = half_at(b, at) * ((float)nibble + 0.5f) * 0.25f;
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 high = (byte_at(b, at + 66u + u / 4u) >> (2u * (u % 4u))) & 3u;
  return entry8(args, byte_at(b, at + 2u + u) | (high << 8), byte_at(b, at + 34u + u));
}
