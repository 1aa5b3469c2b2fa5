#use tiles
// What kernels of matrix units share: which rows a warp takes, and what comes before and after its
// products. A warp takes WARP_ROWS rows of w and WARP_TOKENS of x; see mma_tile and bulk_tile.
#define RM (WARP_ROWS / 16u)
#define RN (WARP_TOKENS / 8u)
#define WARPS_M (TM / WARP_ROWS)
#if INT_DOT
#else
#if BRAIN
#define mma_part(c, a, b) mma_bf16(c, a, b)
#define wgmma_part(n, c, a, tile, b) wgmma_bf16(n, c, a, tile, b)
#else
#define mma_part(c, a, b) mma_f16(c, a, b)
#define wgmma_part(n, c, a, tile, b) wgmma_f16(n, c, a, tile, b)
// What the sums of each row of x are multiplied with.
#bind in float x_factors
#end
#end
// Which row of x each row of the tile is.
#shared u32 x_rows TN

// The first row of w, and of x, that this warp takes of the workgroup's.
FN u32 warp_row(ARGS) { return SUBGROUP % WARPS_M * WARP_ROWS; }
FN u32 warp_token(ARGS) { return SUBGROUP / WARPS_M * WARP_TOKENS; }

// The column of run `run` of 16 columns of a slice.
FN u32 run_column(u32 slice, u32 run) {
#if PLAIN
  return 64u * slice + 16u * run;
#else
  return slice / CHUNKS * TILE_COLUMNS + pair_column(slice % CHUNKS, run / 2u) + 16u * (run % 2u);
#end
}

#if WGMMA
// The words of a row's four codes with their scale and shift, as float16.
FN void weights_as_halves(u32 words, float scale, float shift, PRIVATE u32 *out) {
  const f4 v = scale * f4_signed(words) + shift;
  out[0] = halves_of(v.x, v.y);
  out[2] = halves_of(v.z, v.w);
}

// This warp's 16 rows of the slice: a fragment for each run of 16 columns.
FN void fragments(ARGS, Bytes b, u32 slice, u32 band, PRIVATE u32 *a) {
#if PLAIN
  UNROLL for (u32 run = 0u; run < 4u; run++) {
    const u4 q = sixteen_columns(b, band, 4u * slice + run);
    a[4u * run] = q.x;
    a[4u * run + 1u] = q.y;
    a[4u * run + 2u] = q.z;
    a[4u * run + 3u] = q.w;
  }
#else
  const u32 c = slice % CHUNKS, tile = band + slice / CHUNKS * TILE_BYTES;
  u32 codes[8];
  chunk_codes(args, b, tile, c, codes);
  UNROLL for (u32 p = 0u; p < 2u; p++) {
    const f4 top = pair_scales(args, b, tile, LANE_G, c, p);
    const f4 low = pair_scales(args, b, tile, LANE_G + 8u, c, p);
    weights_as_halves(codes[2u * p], top.x, top.y, a + 8u * p);
    weights_as_halves(codes[4u + 2u * p], low.x, low.y, a + 8u * p + 1u);
    weights_as_halves(codes[2u * p + 1u], top.z, top.w, a + 8u * p + 4u);
    weights_as_halves(codes[5u + 2u * p], low.z, low.w, a + 8u * p + 5u);
  }
#end
}

#end

// Multiplies sums with the factors of their rows of x.
FN void scale_sums(ARGS, PRIVATE float *acc) {
#if INT_DOT
#else
#if BRAIN
#else
  UNROLL for (u32 n = 0u; n < RN; n++) {
    const u32 token = warp_token(args) + 8u * n + 2u * LANE_T;
    const float one = x_factors[x_rows[token]];
    const float two = x_factors[x_rows[token + 1u]];
    UNROLL for (u32 r = 0u; r < RM; r++) {
      UNROLL for (u32 i = 0u; i < 4u; i++) acc[4u * (r * RN + n) + i] *= i % 2u == 0u ? one : two;
    }
  }
#end
#end
}
