#use step skinny_tile
#if CACHED
// The product in `slot` of a workgroup's rows with row n of x.
FN float total_of(ARGS, u32 slot, u32 n) {
  const u32 i = (slot / 16u * GROUPS_OF_X + n / 8u) * 32u + slot % 8u * 4u + n % 8u / 2u;
  const u4 sums = x_tile[i];
  if (slot / 8u % 2u == 0u) return as_f32(n % 2u == 0u ? sums.x : sums.y);
  return as_f32(n % 2u == 0u ? sums.z : sums.w);
}

#use cached
#else
#use result
#end
#if SECOND
#use exp activation
#end
// What `matvec` does for up to NT X_GROUPS rows of x and weights in tiles, by matrix units; see
// parts/skinny_tile.h. A workgroup multiplies R rows of w: BANDS bands, or with SECOND one of each
// matrix. For NVIDIA only.
#define SUMS ((SECOND ? 1u : BANDS) * GROUPS_OF_X * 32u)

#if CACHED
FN void store_all(ARGS, u32 which, u32 group, u32 count, Matrix own) {
  NO_UNROLL for (u32 i = LANE; i < SUMS; i += WG) {
    const f4 v = sum_of_warps(args, i, count);
    x_tile[i] = U4(as_u32(v.x), as_u32(v.y), as_u32(v.z), as_u32(v.w));
  }
  BARRIER();
  NO_UNROLL for (u32 i = LANE; i < R / 2u * NT; i += WG) {
    const u32 slot = i % (R / 2u) * 2u, n = i / (R / 2u), token = first_token(args) + n;
    if (group * R + slot < own.n_rows && token < count) {
      const Goal to = goal_of(args, which, group, slot, token);
      store_two(args, which, group, slot, n, token, own.n_out, to);
    }
  }
}
#else
// Stores a product, or what `second` makes of it, a product with the same row of the second matrix.
FN void store_one(ARGS, u32 which, u32 row, u32 token, u32 n_out, float product, float second) {
  float value = with_bias(args, which, product, row);
#if SECOND
#if BIAS1
  second += bias1[row];
#end
  value = activate(value) * second;
#end
  store(args, which, value, token * n_out + row);
}

FN void store_all(ARGS, u32 which, u32 group, u32 count, Matrix own) {
  NO_UNROLL for (u32 i = LANE; i < SUMS; i += WG) {
    const f4 v = sum_of_warps(args, i, count);
    f4 u = v;
    if (SECOND) u = sum_of_warps(args, SUMS + i, count);
    const u32 row = group * R + i / (32u * GROUPS_OF_X) * 16u + i % 32u / 4u;
    const u32 token = first_token(args) + i / 32u % GROUPS_OF_X * 8u + i % 4u * 2u;
    const float products[4] = {v.x, v.y, v.z, v.w}, seconds[4] = {u.x, u.y, u.z, u.w};
    UNROLL for (u32 k = 0u; k < 4u; k++) {
      const u32 r = row + k / 2u * 8u, t = token + k % 2u;
      if (r < own.n_rows && t < count) {
        store_one(args, which, own.first_row + r, t, own.n_out, products[k], seconds[k]);
      }
    }
  }
}
#end

KERNEL(matvec_mma) {
  u32 group = (GROUP_X + GROUP_Y * N_GROUPS_X) / X_GROUPS;
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
  u32 bands[BANDS];
  for (u32 r = 0u; r < BANDS; r++) {
    bands[r] = min_u32(group * R + (SECOND ? 0u : 16u * r), m.n_rows - 16u) * m.row_bytes;
  }
#if PDL
  fetch_first(args, which, m.row_bytes, bands);
  wait_for_previous();
#end
  const u32 count = n_rows(args, ROW_KIND);
  multiply_bands(args, which, m.n_in, count, bands);
  store_all(args, which, group, count, m);
}
