#use step element
// y = columns first .. first + count of every `size` columns of x; y has n_cols columns.
typedef struct {
  u32 n_cols, size, first, count;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(columns) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  y[i] = x[i / params.count * params.size + params.first + i % params.count];
}
