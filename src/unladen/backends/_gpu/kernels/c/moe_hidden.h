#if TILED
#use step tile_rows exp activation moe_unit
#else
#use step dot_rows exp activation moe_unit
#end
// act(gate_e x) * (up_e x), or act(up_e x), for each token and each expert e chosen for it. A
// dispatch computes the experts that its bindings hold; their rows follow one another.
#bind out float y
#bind in u32 chosen

KERNEL(moe_hidden) {
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * R;
  const u32 expert = chosen[GROUP_Z] - routing.first_expert;
  const int is_here = expert < routing.n_experts;
  float partial[ALL_OUT / OUT * PARTIALS];
  for (u32 o = 0u; o < ALL_OUT / OUT * PARTIALS; o++) partial[o] = 0.0f;
  if (is_here) {
    u32 rows[ADDRESSES], xs[NT];
    for (u32 r = 0u; r < ADDRESSES; r++) {
      rows[r] = row_of(args, expert, min_u32(first + r, m.n_out - PER_ADDRESS));
    }
    for (u32 n = 0u; n < NT; n++) xs[n] = GROUP_Z / routing.n_used * m.n_in;
    accumulate(args, matrix_bytes(args, 0u), m.n_in, rows, xs, partial);
#if SECOND
    for (u32 r = 0u; r < ADDRESSES; r++) rows[r] += routing.up_first * m.row_bytes;
    accumulate(args, matrix_bytes(args, 1u), m.n_in, rows, xs, partial + PARTIALS);
#end
  }
  finish(args, partial);
  if (is_here && LANE < OUT && first + LANE < m.n_out) {
    y[GROUP_Z * m.n_out + first + LANE] = unit(args, totals[LANE], totals[ALL_OUT - OUT + LANE],
                                               GROUP_Z, chosen[GROUP_Z], first + LANE);
  }
}
