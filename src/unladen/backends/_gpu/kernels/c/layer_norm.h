#use step sum
// y = (x - mean) / sqrt(var + eps) * w + b. A workgroup takes a group of `size` elements of a row.
// w and b repeat every `period` elements.
typedef struct {
  u32 n_cols, size;
  float eps;
  u32 period;
} Params;

#bind struct Params params
#bind in float x
#if WEIGHT
#bind in float w
#end
#if BIAS
#bind in float b
#end
#bind out float y

KERNEL(layer_norm) {
  const u32 n = params.size;
  const u32 n_groups = n_rows(args, ROW_KIND) * (params.n_cols / n);
  const u32 group = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (group >= n_groups) return;
  const u32 at = group * n;
  float s = 0.0f;
  for (u32 i = LANE; i < n; i += WG) s += x[at + i];
  const float mean = sum_all(args, s) / (float)n;
  float squares = 0.0f;
  for (u32 i = LANE; i < n; i += WG) squares += (x[at + i] - mean) * (x[at + i] - mean);
  const float factor = 1.0f / sqrt_f32(sum_all(args, squares) / (float)n + params.eps);
  for (u32 i = LANE; i < n; i += WG) {
    float value = (x[at + i] - mean) * factor;
    const u32 column = (at + i) % params.n_cols % params.period;
#if WEIGHT
    value *= w[column];
#end
#if BIAS
    value += b[column];
#end
    y[at + i] = value;
  }
}
