// The scales of formats of 32 weights whose blocks begin with d and the least weight as float16.

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const f2 d = f2_halves(word_at(b, at));
  return F4(d.x, d.y, d.x, d.y);
}

#if TILED
#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 2u
#define STEPS 0
#define MIDDLE 0u

// What the scales of the two blocks of a chunk are made of, of which the first is at byte `at`.
FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  out[0] = word_at(b, at);
  out[1] = word_at(b, at + 16u * ASIDE_BYTES);
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  out[0] = low_twice(words[p]);
  out[3] = out[4] = high_twice(words[p]);
}
#end
#end
