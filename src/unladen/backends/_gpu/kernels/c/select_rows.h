#use step element
// y[s] = x[rows[s]].
typedef struct {
  u32 n_cols;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(select_rows) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  const u32 row = (u32)batch(args, OUT_ROWS, i / params.n_cols);
  y[i] = x[row * params.n_cols + i % params.n_cols];
}
