// Numbers without blocks; 32 of them are taken at a time.
#define NUMBER_BYTES 2u

FN float number_at(Bytes b, u32 at) { return half_at(b, at); }

#use plain

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u4 bits = words_at(b, at + 16u * u);
  Codes c;
  c.lo = f4_halves(U2(bits.x, bits.y));
  c.hi = f4_halves(U2(bits.z, bits.w));
  return c;
}
