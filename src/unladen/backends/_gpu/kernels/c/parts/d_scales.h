// The scales of formats of 32 weights whose blocks begin with d as float16.

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const float d = half_at(b, at);
  return F4(d, 0.0f, d, 0.0f);
}

#if TILED
#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 2u
#define STEPS 0

// What the scales of the two blocks of a chunk are made of, of which the first is at byte `at`.
FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  out[0] = half_bits(b, at);
  out[1] = half_bits(b, at + 16u * ASIDE_BYTES);
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  out[0] = low_twice(words[p]);
}
#end
#end
