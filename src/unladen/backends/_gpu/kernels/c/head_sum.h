#use step element
// y = the sum of every `size` columns of x; y has n_cols columns.
typedef struct {
  u32 n_cols, size;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(head_sum) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  float sum = 0.0f;
  for (u32 j = 0u; j < params.size; j++) sum += x[i * params.size + j];
  y[i] = sum;
}
