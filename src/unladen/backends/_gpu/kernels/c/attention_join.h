#use step exp
// Adds up the shares of a query row's keys. Each share left its sums of values, the largest score
// that they are relative to, and the sum of its weights. A workgroup takes a row, a thread a share.
typedef struct {
  u32 n_heads;
} Params;

#bind struct Params params
#bind in float x
#bind out float y
#shared float largest MAX_SPLITS
#shared float factor MAX_SPLITS
#shared float counted MAX_SPLITS

KERNEL(attention_join) {
  const u32 row = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (row >= n_rows(args, N_TOKENS) * params.n_heads) return;
  const u32 n_splits = min_u32((u32)step[N_SPLITS], MAX_SPLITS);
  const u32 at = row * n_splits * (VD + 2u);
  if (LANE < n_splits) largest[LANE] = x[at + LANE * (VD + 2u) + VD];
  BARRIER();
  if (LANE < n_splits) {
    float top = largest[0];
    for (u32 s = 1u; s < n_splits; s++) top = max_f32(top, largest[s]);
    const float own = exp_f32(largest[LANE] - top);
    factor[LANE] = own;
    counted[LANE] = own * x[at + LANE * (VD + 2u) + VD + 1u];
  }
  BARRIER();
  float sum = 0.0f;
  for (u32 s = 0u; s < n_splits; s++) sum += counted[s];
  for (u32 d = LANE; d < VD; d += MAX_SPLITS) {
    float value = 0.0f;
    for (u32 s = 0u; s < n_splits; s++) value += x[at + s * (VD + 2u) + d] * factor[s];
    y[row * VD + d] = value / sum;
  }
}
