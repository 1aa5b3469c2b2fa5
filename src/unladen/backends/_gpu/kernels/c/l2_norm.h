#use step sum
// Scales each head of `size` columns to length 1. A workgroup takes a head.
typedef struct {
  u32 n_cols, size;
  float eps;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(l2_norm) {
  const u32 n_groups = n_rows(args, ROW_KIND) * (params.n_cols / params.size);
  const u32 group = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (group >= n_groups) return;
  const u32 at = group * params.size;
  float s = 0.0f;
  for (u32 i = LANE; i < params.size; i += WG) s += x[at + i] * x[at + i];
  const float factor = 1.0f / sqrt_f32(sum_all(args, s) + params.eps);
  for (u32 i = LANE; i < params.size; i += WG) y[at + i] = x[at + i] * factor;
}
