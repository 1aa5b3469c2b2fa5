#use step element
// y[t] = rows[row_of[t]], or x[t] where the step brings no row for the token.
typedef struct {
  u32 n_cols;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(insert_rows) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  const int row = batch(args, ROW_OF, i / params.n_cols);
  if (row < 0) {
    y[i] = x[i];
  } else {
    y[i] = as_f32((u32)batch(args, ROWS, (u32)row * params.n_cols + i % params.n_cols));
  }
}
