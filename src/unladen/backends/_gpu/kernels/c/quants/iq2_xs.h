#use grids
#grid iq2xs
// 0: d float16; 2: for each eight weights the index in 9 bits and the sign code in 7; 66: scale of
// 4 bits, low nibble first.
#define SPAN 4u
#define GROUP 2u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 nibble = (byte_at(b, at + 66u + u / 4u) >> (4u * ((u / 2u) % 2u))) & 15u;
  const float s = half_at(b, at) * ((float)nibble + 0.5f) * 0.25f;
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 code = half_bits(b, at + 2u + 2u * u);
  return entry8(args, code & 511u, even_signs(code >> 9));
}
