#use step tile exp activation moe_unit moe_work
// Multiplies one expert with up to TILE of the rows that chose it (see moe_group); each pair gets a
// result. With HIDDEN it is the unit of a token's row (see moe_hidden), else down x of a pair's
// row.
#bind out float y

KERNEL(moe_tile) {
  const Work work = find_work(args);
  const u32 count = work.count;
  if (count == 0u) return;
  const u32 expert = work.expert, at = work.at;
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * TILE;
  const u32 w_row = row_of(args, expert, min_u32(first + LANE / 4u, m.n_out - 1u));
  const u32 pair = order[at + min_u32(LANE / 4u, count - 1u)];
#if HIDDEN
  const u32 x_row = pair / routing.n_used * m.n_in;
#else
  const u32 x_row = pair * m.n_in;
#end
  float acc[16];
  for (u32 o = 0u; o < 16u; o++) acc[o] = 0.0f;
  multiply(args, matrix_bytes(args, 0u), w_row, x_row, acc);
#if SECOND
  float up[16];
  for (u32 o = 0u; o < 16u; o++) up[o] = 0.0f;
  multiply(args, matrix_bytes(args, 1u), w_row + routing.up_first * m.row_bytes, x_row, up);
#end
  for (u32 n = 0u; n < 4u; n++) {
    const u32 k = LANE / 16u + 16u * n;
    if (k >= count) continue;
    const u32 mine = order[at + k];
    for (u32 r = 0u; r < 4u; r++) {
      const u32 row = first + LANE % 16u + 16u * r;
      if (row >= m.n_out) continue;
      float value = acc[4u * r + n];
#if HIDDEN
#if SECOND
      value = unit(args, value, up[4u * r + n], mine, expert + routing.first_expert, row);
#else
      value = unit(args, 0.0f, value, mine, expert + routing.first_expert, row);
#end
#end
      y[mine * m.n_out + row] = value;
    }
  }
}
