#use step element
// y = a + b. With ROW, b is one row that is added to every row of a.
typedef struct {
  u32 n_cols;
} Params;

#bind struct Params params
#bind in float a
#bind in float b
#bind out float y

KERNEL(add) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
#if ROW
  y[i] = a[i] + b[i % params.n_cols];
#else
  y[i] = a[i] + b[i];
#end
}
