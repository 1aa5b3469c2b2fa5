#use grids
#grid iq3xxs
// 0: d float16; 2: indices of four weights each; 66: for each run of 32 four sign codes of 7 bits
// and the scale in the top 4 bits.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 rest = word_at(b, at + 66u + 4u * (u / 4u));
  const float s = half_at(b, at) * ((float)(rest >> 28) + 0.5f) * 0.5f;
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 code = (word_at(b, at + 66u + 4u * (u / 4u)) >> (7u * (u % 4u))) & 127u;
  const u32 pair = half_bits(b, at + 2u + 2u * u);
  return entries4(args, pair & 255u, pair >> 8, even_signs(code));
}
