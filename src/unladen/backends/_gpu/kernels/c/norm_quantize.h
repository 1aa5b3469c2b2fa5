#use step sum runs
// What `rms_norm` and `quantize` give together: y = x / sqrt(mean(x^2) + eps) * w as int8, a scale
// for each run of 16 columns, and the sum of these before rounding. A workgroup takes a row. Each
// thread loads KEPT items of four columns of x and of w before squares are added up; with LONGER
// the row has more of them.
typedef struct {
  u32 n_cols;
  float eps;
} Params;

#bind struct Params params
#bind in f4 x
#if WEIGHT
#bind in f4 w
#end

// Items first + LANE + k * WG of the row that begins at item `row`, and their weights; 0 beyond it.
FN void load_items(ARGS, u32 row, u32 first, PRIVATE f4 *own, PRIVATE f4 *weight) {
  for (u32 k = 0u; k < KEPT; k++) {
    const u32 i = first + LANE + k * WG;
    own[k] = F4_ALL(0.0f);
    weight[k] = F4_ALL(1.0f);
    if (i < params.n_cols / 4u) {
      own[k] = x[row + i];
#if WEIGHT
      weight[k] = w[i];
#end
    }
  }
}

// Rounds items that were loaded, and stores them.
FN void store_items(ARGS, u32 row, u32 first, float factor, PRIVATE const f4 *own,
                    PRIVATE const f4 *weight) {
  f4 v[KEPT];
  for (u32 k = 0u; k < KEPT; k++) v[k] = own[k] * factor * weight[k];
  store_runs(args, row + first, row + params.n_cols / 4u, v);
}

KERNEL(norm_quantize) {
#if PDL
#if WEIGHT
  // The weights come closer while the launch before this one ends.
  if (LANE == 0u) prefetch(w, 0u, 4u * params.n_cols);
#end
  wait_for_previous();
#end
  const u32 row = GROUP_X + GROUP_Y * N_GROUPS_X;
  // Only a folded grid has workgroups beyond the last row.
  if (GROUP_Y > 0u && row >= n_rows(args, ROW_KIND)) return;
  const u32 at = row * (params.n_cols / 4u);
  f4 own[KEPT], weight[KEPT];
  load_items(args, at, 0u, own, weight);
  float s = 0.0f;
  for (u32 k = 0u; k < KEPT; k++) s += f4_dot(own[k], own[k]);
#if LONGER
  for (u32 i = LANE + KEPT * WG; i < params.n_cols / 4u; i += WG) {
    const f4 v = x[at + i];
    s += f4_dot(v, v);
  }
#end
  const float mean = sum_all(args, s) / (float)params.n_cols;
  const float factor = 1.0f / sqrt_f32(mean + params.eps);
  store_items(args, at, 0u, factor, own, weight);
#if LONGER
  for (u32 first = KEPT * WG; first < params.n_cols / 4u; first += KEPT * WG) {
    BARRIER();
    load_items(args, at, first, own, weight);
    store_items(args, at, first, factor, own, weight);
  }
#end
}
