// Weights in tiles as fragments of float16, for four warps: a slice of 64 columns of 16 rows. What a
// slice is made of is loaded by itself, so that it may arrive while other slices are multiplied.
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
// Words of codes, and of the scales of rows g and g + 8 where the format can load them apart.
typedef struct {
  u4 codes[2];
#ifdef ROW_WORDS
  u32 top[ROW_WORDS], low[ROW_WORDS];
#endif
} Raw;

FN void load_raw(ARGS, Bytes b, u32 slice, u32 band, PRIVATE Raw *raw) {
  const u32 c = slice % CHUNKS, tile = band + slice / CHUNKS * TILE_BYTES;
  words_after(b, tile, 0u, c, raw->codes);
#ifdef ROW_WORDS
  row_words_of(b, tile, LANE_G, c, raw->top);
  row_words_of(b, tile, LANE_G + 8u, c, raw->low);
#endif
}

// The words of a row's four codes with their scale and shift, as float16.
FN void weights_as_halves(u32 words, float scale, float shift, PRIVATE u32 *out) {
  const f4 v = scale * f4_signed(words) + shift;
  out[0] = halves_of(v.x, v.y);
  out[2] = halves_of(v.z, v.w);
}

// This warp's 16 rows of a slice, which `raw` was loaded for: a fragment for each run of 16
// columns.
FN void fragments(ARGS, Bytes b, u32 slice, u32 band, PRIVATE const Raw *raw, PRIVATE u32 *a) {
  const u32 c = slice % CHUNKS, tile = band + slice / CHUNKS * TILE_BYTES;
  u32 codes[8];
  codes_of(args, raw->codes, b, tile, 0u, c, codes);
  UNROLL for (u32 p = 0u; p < 2u; p++) {
#ifdef ROW_WORDS
    const f4 top = scales_of_words(raw->top, c % (UNITS < 8u ? 1u : UNITS / 8u), p);
    const f4 low = scales_of_words(raw->low, c % (UNITS < 8u ? 1u : UNITS / 8u), p);
#endif
#ifndef ROW_WORDS
    const f4 top = pair_scales(args, b, tile, LANE_G, c, p);
    const f4 low = pair_scales(args, b, tile, LANE_G + 8u, c, p);
#endif
    weights_as_halves(codes[2u * p], top.x, top.y, a + 8u * p);
    weights_as_halves(codes[4u + 2u * p], low.x, low.y, a + 8u * p + 1u);
    weights_as_halves(codes[2u * p + 1u], top.z, top.w, a + 8u * p + 4u);
    weights_as_halves(codes[5u + 2u * p], low.z, low.w, a + 8u * p + 5u);
  }
}
#end
