#use step element moe_result
// y[t] = the sum of weight * x over the pairs of token t with one of the n_held experts.
typedef struct {
  u32 n_cols, n_used, n_held;
} Params;

#bind struct Params params
#bind in float x
#bind out float y
#bind in u32 chosen

KERNEL(moe_join) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  const u32 pair = i / params.n_cols * params.n_used, col = i % params.n_cols;
  float total = 0.0f;
  for (u32 s = pair; s < pair + params.n_used; s++) {
    if (chosen[s] < params.n_held) {
      total += result_weight(args, s, chosen[s]) * x[s * params.n_cols + col];
#if DOWN_BIAS
      total += bias_of(args, s, chosen[s], params.n_cols, col);
#end
    }
  }
  y[i] = total;
}
