#if TILED
#use step tile_rows moe_result
#else
#use step dot_rows moe_result
#end
// y = the sum over a token's experts e of weight_e * down_e hidden_e; see moe_hidden.
typedef struct {
  u32 n_used, first_expert, n_experts;
} Routing;

#bind out float y
#bind in u32 chosen
#bind struct Routing routing

KERNEL(moe_out) {
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * R;
  const u32 begin = GROUP_Z * routing.n_used, end = begin + routing.n_used;
  float partial[PARTIALS];
  for (u32 o = 0u; o < PARTIALS; o++) partial[o] = 0.0f;
  for (u32 i = begin; i < end; i++) {
    const u32 expert = chosen[i] - routing.first_expert;
    if (expert < routing.n_experts) {
      u32 rows[ADDRESSES], xs[NT];
      float own[PARTIALS];
      for (u32 r = 0u; r < ADDRESSES; r++) {
        rows[r] = (expert * m.n_out + min_u32(first + r, m.n_out - PER_ADDRESS)) * m.row_bytes;
      }
      for (u32 n = 0u; n < NT; n++) xs[n] = i * m.n_in;
      for (u32 o = 0u; o < PARTIALS; o++) own[o] = 0.0f;
      accumulate(args, matrix_bytes(args, 0u), m.n_in, rows, xs, own);
      const float factor = result_weight(args, i, chosen[i]);
      for (u32 o = 0u; o < PARTIALS; o++) partial[o] += factor * own[o];
    }
  }
  finish(args, partial);
  if (LANE < OUT && first + LANE < m.n_out) {
    const u32 at = GROUP_Z * m.n_out + first + LANE;
    float total = totals[LANE];
#if DOWN_BIAS
    for (u32 i = begin; i < end; i++) {
      if (chosen[i] - routing.first_expert < routing.n_experts) {
        total += bias_of(args, i, chosen[i], m.n_out, first + LANE);
      }
    }
#end
    if (routing.first_expert > 0u) total += y[at];
    y[at] = total;
  }
}
