#use step result
// y = x w^T (+ bias) for many rows of x and weights in tiles; see parts/mma_tile.h, and
// parts/bulk_tile.h where x comes by bulk copies. For NVIDIA only.
#if BULK
#use bulk_tile
#else
#use mma_tile
#end

KERNEL(matmul_mma) {
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * TM;
  const u32 token = GROUP_Z * TN;
  const u32 count = n_rows(args, ROW_KIND);
  if (first >= m.n_rows) return;
  for (u32 i = LANE; i < TN; i += WG) x_rows[i] = min_u32(token + i, count - 1u) * m.n_in;
  BARRIER();
  u32 bands[RM];
  for (u32 r = 0u; r < RM; r++) {
    bands[r] = min_u32(first + warp_row(args) + 16u * r, m.n_rows - 16u) * m.row_bytes;
  }
  float acc[4u * RM * RN];
  multiply_tiles(args, w, bands, acc);
  UNROLL for (u32 r = 0u; r < RM; r++) {
    UNROLL for (u32 o = 0u; o < 4u * RN; o++) {
      const u32 row = first + warp_row(args) + 16u * r + LANE_G + o % 4u / 2u * 8u;
      const u32 t = token + warp_token(args) + o / 4u * 8u + 2u * LANE_T + o % 2u;
      if (row < m.n_rows && t < count) {
        const u32 all_row = m.first_row + row;
        store(args, 0u, with_bias(args, 0u, acc[4u * r * RN + o], all_row),
              t * m.n_out + all_row);
      }
    }
  }
}
