// Numbers without blocks; 32 of them are taken at a time.
#define NUMBER_BYTES 4u

FN float number_at(Bytes b, u32 at) { return as_f32(load_u32(b, at)); }

#use plain

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  Codes c;
  c.lo = f4_bits(words_at(b, at + 32u * u));
  c.hi = f4_bits(words_at(b, at + 32u * u + 16u));
  return c;
}
