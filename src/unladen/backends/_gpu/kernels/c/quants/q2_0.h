// 0: d float16; 2: q of 2 bits, four a byte, lowest first.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const float d = half_at(b, at);
  return F4(d, 0.0f, d, 0.0f);
}

// The numbers that four codes of 2 bits stand for.
FN f4 four(u32 q) {
  return F4((float)(q & 3u) - 1.0f, (float)((q >> 2) & 3u) - 1.0f, (float)((q >> 4) & 3u) - 1.0f,
            (float)((q >> 6) & 3u) - 1.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = half_bits(b, at + 2u + 2u * u);
  Codes c;
  c.lo = four(q);
  c.hi = four(q >> 8);
  return c;
}
