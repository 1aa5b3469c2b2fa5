// A quarter of a workgroup's subgroups multiplies a tile.
#define TEAMS 4u
#use step tile_rows bias exp activation
// y = act(x w^T) * (x w1^T) for few rows of x and weights in tiles: a workgroup multiplies two
// tiles of w and those of w1 beside them with NT rows of x, all four at the same time. With ROUNDED
// the 32 columns of y that it makes are stored as int8 with one scale, else as they are.
#if ROUNDED
#use rounding
#bind out u32 y_codes
#bind out f2 y_scales
#else
#bind out float y
#end
#define BAND (2u * R)

// What a team made of this thread's column and row n of x: the sum over its subgroups.
FN float team_total(ARGS, u32 team, u32 n) {
  const u32 first = (n * (WG / 32u) + team * WARPS) * R + IN_SUBGROUP % R;
  float total = 0.0f;
  for (u32 s = 0u; s < WARPS; s++) total += sums[first + s * R];
  return total;
}

// Stores element i of y, of which each thread of a subgroup has one; 32 of them have one scale.
FN void store_column(ARGS, u32 i, float value, int is_there) {
#if ROUNDED
  const float largest = as_f32(subgroup_max_u32(as_u32(abs_f32(value))));
  float sum = value;
  for (u32 k = 1u; k < 16u; k *= 2u) sum += shuffle_xor(sum, k);
  u32 word = rounded_one(value * inverse_scale(largest)) << (8u * (IN_SUBGROUP % 4u));
  for (u32 k = 1u; k < 4u; k *= 2u) word |= u32_of(shuffle_xor_int((int)word, k));
  if (is_there && i % 4u == 0u) y_codes[i / 4u] = word;
  if (is_there && i % 16u == 0u) y_scales[i / 16u] = F2(scale_of(largest), sum);
#else
  if (is_there) y[i] = value;
#end
}

KERNEL(gated_rows) {
  const u32 first = BAND * (GROUP_X + GROUP_Y * N_GROUPS_X), team = SUBGROUP / WARPS;
  // Teams 0 and 1 take the first tiles of w and of w1, the others the second ones. A folded grid
  // may have more workgroups than there are tiles.
  const u32 tile = min_u32(first + team / 2u * R, m.n_rows - R);
  u32 rows[ADDRESSES], xs[NT];
  float partial[PARTIALS];
  rows[0] = tile * m.row_bytes;
#if PDL
  // The weights come closer while the launch before this one ends.
  if (LANE % (32u * WARPS) == 0u) {
    prefetch(matrix_bytes(args, team % 2u), rows[0], R * m.row_bytes);
  }
  wait_for_previous();
#end
  const u32 count = NT == 1u ? N_GROUPS_Z : n_rows(args, ROW_KIND);
  for (u32 n = 0u; n < NT; n++) {
    xs[n] = min_u32(GROUP_Z * NT + n, count - 1u) * m.n_in;
    partial[n] = 0.0f;
  }
  accumulate(args, matrix_bytes(args, team % 2u), m.n_in, rows, xs, partial);
  for (u32 n = 0u; n < NT; n++) {
    const float both = partial[n] + shuffle_xor(partial[n], 1u);
    if (LANE_T % 2u == 0u) sums[(n * (WG / 32u) + SUBGROUP) * R + OWN_ROW] = both;
  }
  BARRIER();
  // A subgroup has the columns of a row of y.
  if (SUBGROUP < NT) {
    const u32 token = GROUP_Z * NT + SUBGROUP, pair = IN_SUBGROUP / R * 2u;
    const u32 row = m.first_row + min_u32(first, m.n_rows - BAND) + IN_SUBGROUP;
    const float gate = with_bias(args, 0u, team_total(args, pair, SUBGROUP), row);
    float up = team_total(args, pair + 1u, SUBGROUP);
#if BIAS1
    up += bias1[row];
#end
    store_column(args, token * m.n_out + row, activate(gate) * up,
                 first < m.n_rows && token < count);
  }
}
