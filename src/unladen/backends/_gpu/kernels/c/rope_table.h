#use step element
// Copies cosines and sines that the host computed in float64.
typedef struct {
  u32 n_cols, table;
} Params;

#bind struct Params params
#bind out float y

KERNEL(rope_table) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  y[i] = as_f32((u32)batch(args, ROPE_TABLES + params.table, i));
}
