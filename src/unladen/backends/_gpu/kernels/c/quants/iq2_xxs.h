#use grids
#grid iq2xxs
// 0: d float16; 2: 8 bytes for each run of 32: four indices, then four sign codes of 7 bits and the
// scale in the top 4 bits.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 rest = word_at(b, at + 6u + 8u * (u / 4u));
  const float s = half_at(b, at) * ((float)(rest >> 28) + 0.5f) * 0.25f;
  return F4(s, 0.0f, s, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 run = at + 2u + 8u * (u / 4u);
  const u32 code = (word_at(b, run + 4u) >> (7u * (u % 4u))) & 127u;
  return entry8(args, byte_at(b, run + u % 4u), even_signs(code));
}
