#define ZERO_LATER
#use tiles pair_sums
#bind in u32 x_codes
#bind in u32 x_scales
// A workgroup of WG threads multiplies R = 16 rows, which are tiles, with NT = 8 rows of x that
// `quantize` rounded to int8, by the matrix units of NVIDIA's chips. A warp takes IN_TURN chunks, a
// tile or more, whose places in it the compiler knows. It loads all words of TOGETHER chunks before
// it uses any. A fragment of x has the rows of x that a step has, and beyond them the last one
// again. Warps' sums are added in a fixed order.
#define OUT (R * NT)
#define TOGETHER 2u
#define IN_TURN (CHUNKS > TOGETHER ? CHUNKS : TOGETHER)
// What a thread holds: the address of the first row, rows LANE_G, 2 LANE_T and 2 LANE_T + 1 of x,
// and for a matrix the sums of rows g and g + 8 with the last two of these. The last address of n
// rows is PER_ADDRESS rows before their end: a grid may have more groups than tiles.
#define ADDRESSES 1u
#define PER_ADDRESS R
#define XS 3u
#define X_ROW(i) ((i) == 0u ? LANE_G : 2u * LANE_T + (i) - 1u)
#define PARTIALS 4u
#shared float sums (WG / 32u * ALL_OUT)
#shared float totals ALL_OUT

// A row's scale and sum of each of two runs from byte `at` on, and `more` after it.
FN u4 run_scales(ARGS, u32 at, u32 more) {
  if (SHIFTED) return load_u128_from(x_scales, at, more);
  return U4(load_u32_from(x_scales, at, more), 0u, 0u, 0u);
}

// Adds n_chunks chunks; the first is chunk c of the tile.
FN void add_chunks(ARGS, Bytes b, u32 tile, u32 c, u32 column, u32 n_chunks, PRIVATE const u32 *xs,
                   PRIVATE float *partial) {
  u32 a[8u * TOGETHER], x[4u * TOGETHER];
  f4 scale[4u * TOGETHER];
  u4 x_scale[4u * TOGETHER];
  UNROLL for (u32 k = 0u; k < n_chunks; k++) {
    const u32 own = (c + k) % CHUNKS, tiles = (c + k) / CHUNKS, more = tiles * TILE_COLUMNS;
    const u32 after = tiles * TILE_BYTES;
    codes_after(args, b, tile, after, own, a + 8u * k);
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      const u32 from = more + pair_column(own, p), i = 4u * k + 2u * p;
      x[i] = load_u32_from(x_codes, xs[0] + column + 4u * LANE_T, from);
      x[i + 1u] = load_u32_from(x_codes, xs[0] + column + 4u * LANE_T, from + 16u);
      UNROLL for (u32 h = 0u; h < 2u; h++) {
        scale[i + h] = pair_scales(args, b, tile + after, LANE_G + 8u * h, own, p);
        x_scale[i + h] = run_scales(args, (xs[1u + h] + column) / 2u, from / 2u);
      }
    }
  }
  UNROLL for (u32 k = 0u; k < n_chunks; k++) {
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      const u32 i = 4u * k + 2u * p;
      int sum[4], rest[4];
      pair_sums(p, a + 8u * k, x + 4u * k, sum, rest);
      UNROLL for (u32 o = 0u; o < 4u; o++) {
        partial[o] += scaled(scale[i + o / 2u], x_scale[i + o % 2u], sum[o], rest[o]);
      }
    }
  }
}

// Adds to `partial` the products of the tiles whose first row begins at byte rows[0] of b.
FN void accumulate(ARGS, Bytes b, u32 n_in, PRIVATE const u32 *rows, PRIVATE const u32 *xs,
                   PRIVATE float *partial) {
  const u32 n_chunks = n_in / 64u, n_whole = n_chunks / IN_TURN * IN_TURN;
  for (u32 each = IN_TURN * SUBGROUP; each < n_whole; each += IN_TURN * (WG / 32u)) {
    const u32 i = each / CHUNKS;
    UNROLL for (u32 c = 0u; c < IN_TURN; c += TOGETHER) {
      add_chunks(args, b, rows[0] + i * TILE_BYTES, c, i * TILE_COLUMNS, TOGETHER, xs, partial);
    }
  }
  if (CHUNKS % IN_TURN != 0u) {
    for (u32 each = n_whole + SUBGROUP; each < n_chunks; each += WG / 32u) {
      const u32 i = each / CHUNKS;
      add_chunks(args, b, rows[0] + i * TILE_BYTES, each % CHUNKS, i * TILE_COLUMNS, 1u, xs,
                 partial);
    }
  }
}

// Leaves the sums over all warps in `totals`, for every thread to read.
FN void finish(ARGS, PRIVATE const float *partial) {
  for (u32 o = 0u; o < ALL_OUT / OUT * 4u; o++) {
    const u32 row = LANE_G + o % 4u / 2u * 8u, n = 2u * LANE_T + o % 2u;
    sums[(o / 4u * (WG / 32u) + SUBGROUP) * OUT + row * NT + n] = partial[o];
  }
  BARRIER();
  NO_UNROLL for (u32 o = LANE; o < ALL_OUT; o += WG) {
    float total = 0.0f;
    for (u32 s = 0u; s < WG / 32u; s++) total += sums[(o / OUT * (WG / 32u) + s) * OUT + o % OUT];
    totals[o] = total;
  }
  BARRIER();
}
