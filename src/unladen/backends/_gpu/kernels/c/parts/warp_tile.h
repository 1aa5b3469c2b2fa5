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
#use fragments
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
