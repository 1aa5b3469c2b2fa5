#use step element
// y = x within `limit` of 0.
typedef struct {
  u32 n_cols;
  float limit;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(clamp) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  y[i] = clamp_f32(x[i], -params.limit, params.limit);
}
