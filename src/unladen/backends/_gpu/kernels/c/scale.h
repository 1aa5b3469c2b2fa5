#use step element
// y = s x, multiplied with w or divided by it. Each of the n_weights numbers of w serves as many
// neighbouring columns.
typedef struct {
  u32 n_cols;
  float s;
  u32 n_weights;
} Params;

#bind struct Params params
#bind in float x
#bind out float y
#if WEIGHT
#bind in float w
#end

KERNEL(scale) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  float value = params.s * x[i];
#if WEIGHT
  const float factor = w[i % params.n_cols / (params.n_cols / params.n_weights)];
#if DIVIDE
  value /= factor;
#else
  value *= factor;
#end
#end
  y[i] = value;
}
