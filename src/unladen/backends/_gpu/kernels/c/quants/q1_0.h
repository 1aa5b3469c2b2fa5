// 0: d float16; 2: a bit for each weight, set means plus.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const float d = half_at(b, at);
  return F4(d, 0.0f, d, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = byte_at(b, at + 2u + u);
  Codes c;
  c.lo = 2.0f * four_bits(q, 0u) - 1.0f;
  c.hi = 2.0f * four_bits(q, 4u) - 1.0f;
  return c;
}
