// 0: bit k of byte j is the top bit of q[j + 32 k]; 32: 128 weights in 32 bytes, byte j holds q[j],
// q[j + 32], ...; 96: scale[j] low, scale[j + 8] high; 104: high 2 bits of scale[j], scale[j + 4],
// ...; 108: d float16.
#define SPAN 32u
#define GROUP 4u
#define SHIFTED 0
#define ZERO 4u
// In tiles: columns with a scale, and where a chunk's bits are.
#define SCALED 16u
#define LOW_AT(c) (512u * ((c) / 2u))
#define LOW_SHIFT(c) (4u * ((c) % 2u))
#define HIGH_AT(c) 0u
#define HIGH_SHIFT(c) (2u * (c))

#use packed packed_each

FN u32 unit_at(u32 u) { return 64u * (u / 8u) + 4u * (u % 8u); }

FN float run_scale(Bytes b, u32 at, u32 run) {
  const u32 low = (byte_at(b, at + 96u + run % 8u) >> (4u * (run / 8u))) & 15u;
  const u32 high = (byte_at(b, at + 104u + run % 4u) >> (2u * (run / 4u))) & 3u;
  return (float)(low | (high << 4)) - 32.0f;
}

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 run = 4u * (u / 8u) + (u % 8u) / 4u;
  const float d = half_at(b, at + 108u);
  return F4(d * run_scale(b, at, run), 0.0f, d * run_scale(b, at, run + 2u), 0.0f);
}

FN u2 word_codes(u32 low, u32 high) {
  return U2(less_zero((low & 0x03030303u) | ((high & 0x01010101u) << 2)),
            less_zero(((low >> 2) & 0x03030303u) | (((high >> 1) & 0x01010101u) << 2)));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  const u32 top = word_at(b, at + 4u * (u % 8u)) >> (2u * (u / 8u));
  const u32 q = word_at(b, at + 32u + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return word_codes(q, top);
}

#if TILED
#define PAIR_SCALES

// As `pair_scales` gives them, for chunk c of the block at byte `at`.
FN f4 scales_of_pair(ARGS, Bytes b, u32 at, u32 c, u32 p) {
  const u32 run = 4u * c + 2u * p;
  const float d = half_at(b, at + 108u);
  return F4(d * run_scale(b, at, run), 0.0f, d * run_scale(b, at, run + 1u), 0.0f);
}

#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 5u
#define STEPS 1

// What the scales of chunk c of the block at byte `at` are made of.
FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  for (u32 i = 0u; i < 2u; i++) {
    out[i] = half_bits(b, at + 96u + 4u * (c % 2u) + 2u * i);
    out[2u + i] = half_bits(b, at + 104u + 2u * i);
  }
  out[4] = half_bits(b, at + 108u);
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  const u32 bytes = ((words[p] >> (4u * (c / 2u))) & 0x0f0fu)
                    | (((words[2u + p] >> (2u * c)) & 0x0303u) << 4);
  const u32 steps = whole_halves(bytes, 32u, false);
  out[0] = low_twice(words[4]);
  out[1] = low_twice(steps);
  out[2] = high_twice(steps);
}
#end
#end
