#use step result
// y = x w^T (+ bias) for many rows of x and weights in tiles; see parts/mma_tile.h, and
// parts/bulk_tile.h where x comes by bulk copies. For NVIDIA only.
#if BULK
#use bulk_tile
#else
#use mma_tile
#end

// Sums of a thread that are stored together: whatever is added to them is read before.
#define TOGETHER (RN < 4u ? 4u * RN : 16u)

// Stores what a band of 16 rows of w from `row` on gives with this thread's rows of x, from `token`
// on, of which n_left are rows of the step. The rows of w are all there: tiles are whole.
FN void store_band(ARGS, u32 row, u32 token, u32 n_left, PRIVATE float *acc) {
  const u32 all_row = m.first_row + row + LANE_G, to = token * m.n_out + all_row;
  UNROLL for (u32 first = 0u; first < 4u * RN; first += TOGETHER) {
    UNROLL for (u32 o = first; o < first + TOGETHER; o++) {
      const u32 more = o / 4u * 8u + o % 2u, rows = o % 4u / 2u * 8u;
      if (more < n_left) {
        const float value = with_bias(args, 0u, acc[o], all_row + rows);
        acc[o] = with_residual(args, value, to + more * m.n_out + rows);
      }
    }
    UNROLL for (u32 o = first; o < first + TOGETHER; o++) {
      const u32 more = o / 4u * 8u + o % 2u, rows = o % 4u / 2u * 8u;
      if (more < n_left) y[to + more * m.n_out + rows] = acc[o];
    }
  }
}

KERNEL(matmul_mma) {
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * TM;
  const u32 token = GROUP_Z * TN;
  const u32 count = n_rows(args, ROW_KIND);
  if (first >= m.n_rows) return;
  for (u32 i = LANE; i < TN; i += WG) x_rows[i] = min_u32(token + i, count - 1u);
  BARRIER();
  const u32 row = first + warp_row(args);
  u32 bands[RM];
  for (u32 r = 0u; r < RM; r++) bands[r] = min_u32(row + 16u * r, m.n_rows - 16u) * m.row_bytes;
  float acc[4u * RM * RN];
  multiply_tiles(args, w, bands, acc);
  const u32 mine = token + warp_token(args) + 2u * LANE_T;
  UNROLL for (u32 r = 0u; r < RM; r++) {
    if (row + 16u * r >= m.n_rows) continue;
    if (token + TN <= count) {
      store_band(args, row + 16u * r, mine, TN, acc + 4u * r * RN);
    } else {
      store_band(args, row + 16u * r, mine, count - min_u32(mine, count), acc + 4u * r * RN);
    }
  }
}
