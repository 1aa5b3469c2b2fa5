// The scales of Q4_K and Q5_K, whose blocks begin with d and dmin as float16, then scales and
// minimums of 6 bits in 12 bytes.

// Scale and minimum of run s, from a block's first sixteen bytes.
FN f2 run_scale(u4 head, u32 s) {
  const u32 shift = (s % 4u) * 8u;
  const u32 y = head.y >> shift, z = head.z >> shift, w = head.w >> shift;
  if (s < 4u) return F2((float)(y & 63u), (float)(z & 63u));
  return F2((float)((w & 15u) | ((y >> 2) & 48u)), (float)(((w >> 4) & 15u) | ((z >> 2) & 48u)));
}

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u4 head = words_at(b, at);
  const f2 d = f2_halves(head.x);
  const f2 lo = run_scale(head, 2u * (u / 8u));
  const f2 hi = run_scale(head, 2u * (u / 8u) + 1u);
  return F4(d.x * lo.x, -(d.y * lo.y), d.x * hi.x, -(d.y * hi.y));
}

#if TILED
#define PAIR_SCALES

// As `pair_scales` gives them, for chunk c of the block at byte `at`.
FN f4 scales_of_pair(ARGS, Bytes b, u32 at, u32 c, u32 p) {
  const u4 head = words_at(b, at);
  const f2 d = f2_halves(head.x), run = run_scale(head, 2u * c + p);
  const float scale = d.x * run.x, shift = -(d.y * run.y);
  return F4(scale, shift, scale, shift);
}

#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 4u
#define STEPS 1

// What the scales of chunk c of the block at byte `at` are made of.
FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  const u4 head = words_at(b, at);
  out[0] = head.x;
  out[1] = head.y;
  out[2] = head.z;
  out[3] = head.w;
}

// Scales of both runs of chunk c, then their minimums, a byte each.
FN u32 bytes_of_runs(PRIVATE const u32 *words, u32 c) {
  const u32 odd = 0x2222u * (c % 2u);
  const u32 six = permute_bytes(words[1], words[2], 0x5410u + odd);
  const u32 four = permute_bytes(words[3], 0u, 0x1010u + odd);
  const u32 last = (four & 0x00000f0fu) | ((four >> 4) & 0x0f0f0000u) | ((six >> 2) & 0x30303030u);
  return c < 2u ? six & 0x3f3f3f3fu : last;
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  const u32 runs = bytes_of_runs(words, c), steps = whole_halves(runs, 0u, false);
  const f2 d = f2_halves(words[0]), scale = f2_halves(steps);
  const f2 least = f2_halves(whole_halves(runs, 0u, true));
  const float shift = fma_f32((float)MIDDLE * d.x, p == 0u ? scale.x : scale.y,
                              -(d.y * (p == 0u ? least.x : least.y)));
  out[0] = low_twice(words[0]);
  out[1] = out[2] = p == 0u ? low_twice(steps) : high_twice(steps);
  out[3] = out[4] = halves_of(shift, shift);
}
#end
#end
