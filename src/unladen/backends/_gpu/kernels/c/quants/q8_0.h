// 0: d float16; 2: q int8.
#define SPAN 16u
#define GROUP 4u
#define SHIFTED 0
#define WHOLE_BYTES

#use packed d_scales

FN u32 unit_at(u32 u) { return 4u * u; }

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return U2(word_at(b, at + 2u + 4u * u), word_at(b, at + 18u + 4u * u));
}

FN void packed_group(ARGS, Bytes b, u32 at, u32 first, PRIVATE u2 *out) {
  store_group(words_at(b, at + 2u + 4u * first), words_at(b, at + 18u + 4u * first), out);
}
