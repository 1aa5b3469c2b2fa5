#use step sum rounding
// What `rms_norm` and `quantize` give together: y = x / sqrt(mean(x^2) + eps) * w as int8, a scale
// for each run of 16 columns, and the sum of these before rounding. A workgroup takes a row. A
// thread takes RUNS runs at a time, which have one scale.
typedef struct {
  u32 n_cols;
  float eps;
} Params;

#bind struct Params params
#bind in f4 x
#if WEIGHT
#bind in f4 w
#end
#bind out u4 codes
#bind out f2 scales

FN f4 scaled(ARGS, u32 row, u32 four, float factor) {
  const f4 v = x[row * (params.n_cols / 4u) + four] * factor;
#if WEIGHT
  return v * w[four];
#else
  return v;
#end
}

KERNEL(norm_quantize) {
  const u32 row = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (row >= n_rows(args, ROW_KIND)) return;
  const u32 n_fours = params.n_cols / 4u, n_runs = params.n_cols / 16u;
  float s = 0.0f;
  for (u32 i = LANE; i < n_fours; i += WG) {
    const f4 v = x[row * n_fours + i];
    s += f4_dot(v, v);
  }
  const float mean = sum_all(args, s) / (float)params.n_cols;
  const float factor = 1.0f / sqrt_f32(mean + params.eps);
  for (u32 first = RUNS * LANE; first < n_runs; first += RUNS * WG) {
    f4 v[4u * RUNS];
    float largest = 0.0f;
    for (u32 k = 0u; k < 4u * RUNS; k++) {
      v[k] = scaled(args, row, 4u * first + k, factor);
      largest = larger(largest, largest_of(v[k]));
    }
    const float inverse = inverse_scale(largest);
    for (u32 r = 0u; r < RUNS; r++) {
      float sum = 0.0f;
      for (u32 k = 4u * r; k < 4u * r + 4u; k++) sum += f4_dot(v[k], F4_ALL(1.0f));
      codes[row * n_runs + first + r] =
          U4(rounded(v[4u * r], inverse), rounded(v[4u * r + 1u], inverse),
             rounded(v[4u * r + 2u], inverse), rounded(v[4u * r + 3u], inverse));
      scales[row * n_runs + first + r] = F2(largest / 127.0f, sum);
    }
  }
}
