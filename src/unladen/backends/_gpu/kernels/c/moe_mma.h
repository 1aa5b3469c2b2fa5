#use step mma_tile exp activation moe_unit moe_work
// Multiplies one expert, whose weights are in tiles, with up to TN of the rows that chose it, as
// moe_tile does. For NVIDIA only.
#bind out float y

FN void band_addresses(ARGS, u32 expert, u32 first, PRIVATE u32 *bands) {
  for (u32 r = 0u; r < RM; r++) {
    bands[r] = row_of(args, expert, min_u32(first + warp_row(args) + 16u * r, m.n_out - 16u));
  }
}

KERNEL(moe_mma) {
  const Work work = find_work(args);
  const u32 count = work.count;
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * TM;
  if (count == 0u || first >= m.n_out) return;
  const u32 expert = work.expert, at = work.at;
  for (u32 i = LANE; i < TN; i += WG) {
    const u32 pair = order[at + min_u32(i, count - 1u)];
#if HIDDEN
    x_rows[i] = pair / routing.n_used;
#else
    x_rows[i] = pair;
#end
  }
  BARRIER();
  u32 bands[RM];
  float acc[4u * RM * RN];
  band_addresses(args, expert, first, bands);
  multiply_tiles(args, matrix_bytes(args, 0u), bands, acc);
#if SECOND
  float up[4u * RM * RN];
  for (u32 r = 0u; r < RM; r++) bands[r] += routing.up_first * m.row_bytes;
  multiply_tiles(args, matrix_bytes(args, 1u), bands, up);
#end
  UNROLL for (u32 r = 0u; r < RM; r++) {
    UNROLL for (u32 o = 0u; o < 4u * RN; o++) {
      const u32 row = first + warp_row(args) + 16u * r + LANE_G + o % 4u / 2u * 8u;
      const u32 k = warp_token(args) + o / 4u * 8u + 2u * LANE_T + o % 2u;
      if (row >= m.n_out || k >= count) continue;
      const u32 mine = order[at + k];
      float value = acc[4u * r * RN + o];
#if HIDDEN
#if SECOND
      value = unit(args, value, up[4u * r * RN + o], mine, expert + routing.first_expert, row);
#else
      value = unit(args, 0.0f, value, mine, expert + routing.first_expert, row);
#end
#end
      y[mine * m.n_out + row] = value;
    }
  }
}
