#use step element
// One input of y = x_0, x_1, ... side by side: columns at .. at + n_cols of each head's n_out.
typedef struct {
  u32 n_cols, n_out, at, n_heads;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(concat) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_heads * params.n_cols) return;
  const u32 head = i / params.n_cols;
#if SHARED
  const u32 from_x = head / params.n_heads * params.n_cols + i % params.n_cols;
#else
  const u32 from_x = i;
#end
  y[head * params.n_out + params.at + i % params.n_cols] = x[from_x];
}
