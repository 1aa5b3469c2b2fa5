// 0: scale low nibble, min high, of 16 runs; 16: 128 weights in 32 bytes, byte j holds q[j],
// q[j + 32], ...; 80: d, dmin float16.
#define SPAN 32u
#define GROUP 4u
#define SHIFTED 1
// In tiles: columns with a scale, where a chunk's bits are, and where d is.
#define SCALED 16u
#define LOW_AT(c) (512u * ((c) / 2u))
#define LOW_SHIFT(c) (4u * ((c) % 2u))
#if TILED
#define D_AT 16u
#else
#define D_AT 80u
#end

#use packed packed_each

FN u32 unit_at(u32 u) { return 64u * (u / 8u) + 4u * (u % 8u); }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 run = 4u * (u / 8u) + (u % 8u) / 4u;
  const f2 d = f2_halves(word_at(b, at + D_AT));
  const u32 lo = byte_at(b, at + run);
  const u32 hi = byte_at(b, at + run + 2u);
  return F4(d.x * (float)(lo & 15u), -(d.y * (float)(lo >> 4)), d.x * (float)(hi & 15u),
            -(d.y * (float)(hi >> 4)));
}

FN u2 word_codes(u32 low, u32 high) { return U2(low & 0x03030303u, (low >> 2) & 0x03030303u); }

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = word_at(b, at + 16u + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return word_codes(q, 0u);
}

#if TILED
#define PAIR_SCALES

// As `pair_scales` gives them, for chunk c of the block at byte `at`.
FN f4 scales_of_pair(ARGS, Bytes b, u32 at, u32 c, u32 p) {
  const f2 d = f2_halves(word_at(b, at + D_AT));
  const u32 both = half_bits(b, at + 4u * c + 2u * p);
  return F4(d.x * (float)(both & 15u), -(d.y * (float)((both >> 4) & 15u)),
            d.x * (float)((both >> 8) & 15u), -(d.y * (float)(both >> 12)));
}

#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 2u
#define STEPS 1
// The code in the middle.
#define MIDDLE 2u

// What the scales of chunk c of the block at byte `at` are made of.
FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  out[0] = word_at(b, at + 4u * c);
  out[1] = word_at(b, at + D_AT);
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  const u32 steps = whole_halves(words[0] & 0x0f0f0f0fu, 0u, p == 1u);
  const u32 mins = whole_halves((words[0] >> 4) & 0x0f0f0f0fu, 0u, p == 1u);
  const f2 d = f2_halves(words[1]), scale = f2_halves(steps), least = f2_halves(mins);
  const float first = fma_f32((float)MIDDLE * d.x, scale.x, -(d.y * least.x));
  const float second = fma_f32((float)MIDDLE * d.x, scale.y, -(d.y * least.y));
  out[0] = low_twice(words[1]);
  out[1] = low_twice(steps);
  out[2] = high_twice(steps);
  out[3] = halves_of(first, first);
  out[4] = halves_of(second, second);
}
#end
#end
