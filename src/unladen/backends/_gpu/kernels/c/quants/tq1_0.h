// Digits of base 3, five a byte: 0: byte j holds q[j], q[j + 32], ... q[j + 128]; 32: q[160 + j],
// q[176 + j], ... q[224 + j]; 48: q[240 + j], ... q[252 + j]; 52: d float16.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const float d = half_at(b, at + 52u);
  return F4(d, 0.0f, d, 0.0f);
}

// Digit n of a byte, which is a fraction of base 3 times 256, rounded up.
FN float digit(u32 byte, u32 n) {
  const u32 power = n == 4u ? 81u : (0x1b090301u >> (8u * n)) & 255u;
  return (float)(((((byte & 255u) * power) & 255u) * 3u) >> 8) - 1.0f;
}

FN f4 digits(u32 bytes, u32 n) {
  return F4(digit(bytes, n), digit(bytes >> 8, n), digit(bytes >> 16, n), digit(bytes >> 24, n));
}

FN f4 four(Bytes b, u32 at, u32 i) {
  if (i < 160u) return digits(word_at(b, at + i % 32u), i / 32u);
  if (i < 240u) return digits(word_at(b, at + 32u + i % 16u), (i - 160u) / 16u);
  return digits(word_at(b, at + 48u), (i - 240u) / 4u);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  Codes c;
  c.lo = four(b, at, 8u * u);
  c.hi = four(b, at, 8u * u + 4u);
  return c;
}
