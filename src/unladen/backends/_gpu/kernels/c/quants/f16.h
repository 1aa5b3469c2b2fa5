// Numbers without blocks; 32 of them are taken at a time.
#define NUMBER_BYTES 2u

FN float number_at(Bytes b, u32 at) { return half_at(b, at); }

#use plain

FN f4 four(u32 low, u32 high) { return f4_halves(U2(low, high)); }

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u4 bits = words_at(b, at + 16u * u);
  Codes c;
  c.lo = four(bits.x, bits.y);
  c.hi = four(bits.z, bits.w);
  return c;
}
