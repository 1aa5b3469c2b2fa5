// Weights in tiles as fragments of float16, for four warps: a slice of 64 columns of 16 rows. The
// words of a slice are loaded apart from that, so that they arrive while others are multiplied.
#if PLAIN
// Plain numbers are fragments as they lie in memory.
typedef struct {
  u32 none;
} Raw;

FN void load_raw(ARGS, Bytes b, u32 slice, u32 band, PRIVATE Raw *raw) { raw->none = 0u; }

FN void fragments(ARGS, Bytes b, u32 slice, u32 band, PRIVATE const Raw *raw, PRIVATE u32 *a) {
  UNROLL for (u32 run = 0u; run < 4u; run++) {
    const u4 q = sixteen_columns(b, band, 4u * slice + run);
    a[4u * run] = q.x;
    a[4u * run + 1u] = q.y;
    a[4u * run + 2u] = q.z;
    a[4u * run + 3u] = q.w;
  }
}
#else
// Words of codes, and of the scales of rows g and g + 8 where the format loads them apart.
typedef struct {
  u4 codes[2];
#ifdef HALF_SCALES
  u32 top[ROW_WORDS], low[ROW_WORDS];
#endif
} Raw;

FN void load_raw(ARGS, Bytes b, u32 slice, u32 band, PRIVATE Raw *raw) {
  const u32 c = slice % CHUNKS, tile = band + slice / CHUNKS * TILE_BYTES;
  words_after(b, tile, 0u, c, raw->codes);
#ifdef HALF_SCALES
  row_words_of(b, tile, LANE_G, c, raw->top);
  row_words_of(b, tile, LANE_G + 8u, c, raw->low);
#endif
}

#ifdef HALF_SCALES
// A row's scales of a pair of 16 columns, each twice in a word: d, the steps of the first and of
// the second 16 columns, and their shifts. A weight is a code, less MIDDLE where codes have no
// sign, times its step, which is a whole number, times d, plus its shift. Codes and steps are
// exact, as is their product up to 2048. Products with d and sums are rounded once. No number but
// the shift leaves the range of float16 unless the weight does, or d.
typedef struct {
  u32 of[5];
} Scales;

FN Scales scales_of(PRIVATE const u32 *words, u32 c, u32 p) {
  Scales s;
  half_scales(words, c % (UNITS < 8u ? 1u : UNITS / 8u), p, s.of);
  return s;
}

// The words of a row's four codes of the first or the second 16 columns.
FN void weights_as_halves(u32 codes, Scales s, u32 second, PRIVATE u32 *out) {
#ifdef MIDDLE
  const u32 bytes = codes, less = MIDDLE;
#endif
#ifndef MIDDLE
  const u32 bytes = codes ^ 0x80808080u, less = 128u;
#endif
  UNROLL for (u32 i = 0u; i < 2u; i++) {
    u32 v = whole_halves(bytes, less, i == 1u);
    if (STEPS) v = mul_halves(v, s.of[1u + second]);
    out[2u * i] = SHIFTED ? fma_halves(v, s.of[0], s.of[3u + second])
                          : mul_halves(v, s.of[0]);
  }
}
#endif
#ifndef HALF_SCALES
typedef struct {
  f4 of;
} Scales;

// The words of a row's four codes of the first or the second 16 columns.
FN void weights_as_halves(u32 codes, Scales s, u32 second, PRIVATE u32 *out) {
  const f4 v = (second == 0u ? s.of.x : s.of.z) * f4_signed(codes)
               + (second == 0u ? s.of.y : s.of.w);
  out[0] = halves_of(v.x, v.y);
  out[2] = halves_of(v.z, v.w);
}
#endif

// This warp's 16 rows of a slice, which `raw` was loaded for: a fragment for each run of 16
// columns.
FN void fragments(ARGS, Bytes b, u32 slice, u32 band, PRIVATE const Raw *raw, PRIVATE u32 *a) {
  const u32 c = slice % CHUNKS, tile = band + slice / CHUNKS * TILE_BYTES;
  u32 codes[8];
  codes_of(args, raw->codes, b, tile, 0u, c, codes);
  UNROLL for (u32 p = 0u; p < 2u; p++) {
#ifdef HALF_SCALES
    const Scales top = scales_of(raw->top, c, p), low = scales_of(raw->low, c, p);
#endif
#ifndef HALF_SCALES
    const Scales top = {pair_scales(args, b, tile, LANE_G, c, p)};
    const Scales low = {pair_scales(args, b, tile, LANE_G + 8u, c, p)};
#endif
    UNROLL for (u32 second = 0u; second < 2u; second++) {
      weights_as_halves(codes[2u * p + second], top, second, a + 8u * p + 4u * second);
      weights_as_halves(codes[4u + 2u * p + second], low, second, a + 8u * p + 4u * second + 1u);
    }
  }
}
#end
