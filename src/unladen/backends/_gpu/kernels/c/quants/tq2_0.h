// 0: 128 weights in 32 bytes, byte j holds q[j], q[j + 32], ...; 64: d float16.
#define SPAN 32u
#define GROUP 4u
#define SHIFTED 0
#define ZERO 1u
// Where a chunk's bits are in tiles.
#define LOW_AT(c) (512u * ((c) / 2u))
#define LOW_SHIFT(c) (4u * ((c) % 2u))

#use packed packed_each

FN u32 unit_at(u32 u) { return 64u * (u / 8u) + 4u * (u % 8u); }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const float d = half_at(b, at + 64u);
  return F4(d, 0.0f, d, 0.0f);
}

#if TILED
#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 1u
#define STEPS 0

FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) { out[0] = half_bits(b, at + 64u); }

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  out[0] = low_twice(words[0]);
}
#end
#end

FN u2 word_codes(u32 low, u32 high) {
  return U2(less_zero(low & 0x03030303u), less_zero((low >> 2) & 0x03030303u));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = word_at(b, at + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return word_codes(q, 0u);
}
