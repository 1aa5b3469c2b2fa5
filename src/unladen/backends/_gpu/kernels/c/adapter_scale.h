#use step element
// y = x times the strength of its column in the set of adapters of the token's sequence.
typedef struct {
  u32 n_cols;
} Params;

#bind struct Params params
// [sets][columns]
#bind in float strengths
#bind in float x
#bind out float y

KERNEL(adapter_scale) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  const int adapters = batch(args, ADAPTER_OF, (u32)batch(args, SEQ_OF, i / params.n_cols));
  if (adapters < 0) {
    y[i] = 0.0f;
  } else {
    y[i] = x[i] * strengths[(u32)adapters * params.n_cols + i % params.n_cols];
  }
}
