#use step element exp activation
// y = act(x).
typedef struct {
  u32 n_cols;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(activation) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  y[i] = activate(x[i]);
}
