#if TILED
#if BY_UNITS
#use step tile_units
#else
#use step tile_rows
#end
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
// A workgroup's weights come closer while the launch before this one ends: n bytes from byte `row`.
FN void fetch_first(ARGS, u32 which, u32 row, u32 n) {
#if TILED
  if (LANE != 0u) return;
  prefetch(matrix_bytes(args, which), row, n);
#if SECOND
  prefetch(matrix_bytes(args, 1u), row, n);
#end
#end
}
#end

#if MATRICES
// The matrix of a workgroup; `group` becomes its number among those of the matrix.
FN u32 matrix_of(ARGS, PRIVATE u32 *group) {
  u32 which = 0u;
  for (u32 i = 0u; i + 1u < MATRICES; i++) {
    const u32 n_groups = (matrices.each[i].m.n_rows + R - 1u) / R;
    if (which == i && *group >= n_groups) {
      *group -= n_groups;
      which = i + 1u;
    }
  }
  return which;
}
#end

// Where the rows of a workgroup begin, in bytes of a matrix of n rows.
FN void find_rows(ARGS, u32 which, u32 group, u32 n, u32 row_bytes, PRIVATE u32 *rows) {
  for (u32 r = 0u; r < ADDRESSES; r++) {
#if CACHED
    const u32 row = row_of(args, which, group, r);
#else
    const u32 row = group * R + r;
#end
    rows[r] = min_u32(row, n - PER_ADDRESS) * row_bytes;
  }
}

KERNEL(matvec) {
  u32 group = GROUP_X + GROUP_Y * N_GROUPS_X, which = 0u;
#if MATRICES
  which = matrix_of(args, &group);
  const Matrix m = matrices.each[which].m;
#end
  const u32 first = group * R;
  u32 rows[ADDRESSES], xs[XS];
  float partial[ALL_OUT / OUT * PARTIALS];
  find_rows(args, which, group, m.n_rows, m.row_bytes, rows);
#if PDL
  fetch_first(args, which, rows[0], R * m.row_bytes);
  wait_for_previous();
#end
  // With one row of x at a time a grid has as many of them as the step has rows: nothing is loaded
  // before the addresses of x are known.
  const u32 count = NT == 1u ? N_GROUPS_Z : n_rows(args, ROW_KIND);
  for (u32 i = 0u; i < XS; i++) xs[i] = min_u32(GROUP_Z * NT + X_ROW(i), count - 1u) * m.n_in;
  for (u32 o = 0u; o < ALL_OUT / OUT * PARTIALS; o++) partial[o] = 0.0f;
#if CACHED
  // The table of blocks and the factors of the rotation are loaded before the weights.
  const u32 slot = LANE / NT * 2u, n = LANE % NT, token = GROUP_Z * NT + n;
  const int stores = slot < R && first + slot < m.n_rows && token < count;
  Goal to;
  if (stores) to = goal_of(args, which, group, slot, token);
#else
  const u32 row = first + LANE / NT, token = GROUP_Z * NT + LANE % NT;
  const u32 at = token * m.n_out + m.first_row + row;
  const int stores = LANE < OUT && row < m.n_rows && token < count;
#if RESIDUAL
  const float before = stores ? residual[at] : 0.0f;
#end
#end
  accumulate(args, matrix_bytes(args, which), m.n_in, rows, xs, partial);
#if SECOND
  accumulate(args, matrix_bytes(args, 1u), m.n_in, rows, xs, partial + PARTIALS);
#end
  finish(args, partial);
#if CACHED
  if (stores) store_two(args, which, group, slot, n, token, m.n_out, to);
#else
  if (stores) {
    float value = with_bias(args, which, totals[LANE], m.first_row + row);
#if SECOND
    float up = totals[OUT + LANE];
#if BIAS1
    up += bias1[m.first_row + row];
#end
    value = activate(value) * up;
#end
#if RESIDUAL
    value += before;
#end
    put(args, which, value, at);
  }
#end
}
