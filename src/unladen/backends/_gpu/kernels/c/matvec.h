#if TILED
#use step tile_rows
#else
#use step dot_rows
#end
#if CACHED
// The product in `slot` of a workgroup's rows with row n of x.
FN float total_of(ARGS, u32 slot, u32 n) { return totals[slot * NT + n]; }

#use cached
#else
#use result
#end
#if SECOND
#use exp activation
#end
// y = x w^T (+ bias) for few rows of x: a workgroup multiplies R rows of w with NT rows of x. With
// SECOND, y = act(x w^T) * (x w1^T). With MATRICES, several matrices meet the same x. With CACHED,
// these are queries, keys and values.

#if PDL
// Weights come closer while the launch before this one ends.
FN void fetch_first(ARGS, u32 which, u32 row, u32 n) {
#if TILED
  fetch_tiles(matrix_bytes(args, which), row, n);
#if SECOND
  fetch_tiles(matrix_bytes(args, 1u), row, n);
#end
#end
}
#end

KERNEL(matvec) {
  u32 group = GROUP_X + GROUP_Y * N_GROUPS_X;
  u32 which = 0u;
#if MATRICES
  for (u32 i = 0u; i + 1u < MATRICES; i++) {
    const u32 n_groups = (matrices.each[i].m.n_rows + R - 1u) / R;
    if (which == i && group >= n_groups) {
      group -= n_groups;
      which = i + 1u;
    }
  }
  const Matrix m = matrices.each[which].m;
#end
  const u32 first = group * R;
  u32 rows[ADDRESSES], xs[NT];
  float partial[ALL_OUT / OUT * PARTIALS];
#if CACHED
  for (u32 r = 0u; r < ADDRESSES; r++) {
    rows[r] = min_u32(row_of(args, which, group, r), m.n_rows - 1u) * m.row_bytes;
  }
#else
  for (u32 r = 0u; r < ADDRESSES; r++) rows[r] = min_u32(first + r, m.n_rows - 1u) * m.row_bytes;
#end
#if PDL
  fetch_first(args, which, rows[0], R * m.row_bytes);
  wait_for_previous();
#end
  const u32 count = n_rows(args, ROW_KIND);
  for (u32 n = 0u; n < NT; n++) xs[n] = min_u32(GROUP_Z * NT + n, count - 1u) * m.n_in;
  for (u32 o = 0u; o < ALL_OUT / OUT * PARTIALS; o++) partial[o] = 0.0f;
  accumulate(args, matrix_bytes(args, which), m.n_in, rows, xs, partial);
#if SECOND
  accumulate(args, matrix_bytes(args, 1u), m.n_in, rows, xs, partial + PARTIALS);
#end
  finish(args, partial);
#if CACHED
  const u32 slot = LANE / NT * 2u, n = LANE % NT, token = GROUP_Z * NT + n;
  if (slot < R && first + slot < m.n_rows && token < count) {
    store_two(args, which, group, slot, n, token, m.n_out);
  }
#else
  const u32 row = first + LANE / NT;
  const u32 token = GROUP_Z * NT + LANE % NT;
  if (LANE < OUT && row < m.n_rows && token < count) {
    float value = with_bias(args, which, totals[LANE], m.first_row + row);
#if SECOND
    float up = totals[OUT + LANE];
#if BIAS1
    up += bias1[m.first_row + row];
#end
    value = activate(value) * up;
#end
    store(args, which, value, token * m.n_out + m.first_row + row);
  }
#end
}
