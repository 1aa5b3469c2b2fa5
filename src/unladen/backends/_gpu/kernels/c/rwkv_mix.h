#use step column exp
// RWKV-7's state. A thread takes a column of a head of a sequence.
typedef struct {
  u32 n_heads, dim;
} Params;

#bind struct Params params
#bind in float r
#bind in float g
#bind in float k
#bind in float v
#bind in float a
#bind in float b
#bind out float slots
#bind out float y

KERNEL(rwkv_mix) {
  const u32 dim = params.dim, n = params.n_heads * dim, column = COLUMN, seq = GROUP_Y;
  if (column >= n || seq >= n_rows(args, N_SEQS)) return;
  const u32 head = column / dim * dim;
  const u32 at = ((u32)batch(args, STATE_OUT, seq) * n + head) * dim + column % dim;
  const int source = batch(args, STATE_IN, seq);
  for (u32 i = 0u; i < dim; i++) {
    slots[at + i * dim] = source >= 0 ? slots[((u32)source * n + head + i) * dim + column % dim]
                                      : 0.0f;
  }
  const u32 end = (u32)batch(args, Q_START, seq + 1u);
  for (u32 t = (u32)batch(args, Q_START, seq); t < end; t++) {
    const u32 row = t * n + head;
    const float value = v[t * n + column];
    float answer = 0.0f;
    for (u32 i = 0u; i < dim; i++) answer += a[row + i] * slots[at + i * dim];
    float sum = 0.0f;
    for (u32 i = 0u; i < dim; i++) {
      const float now = exp_f32(g[row + i]) * slots[at + i * dim] + b[row + i] * answer
                        + k[row + i] * value;
      slots[at + i * dim] = now;
      sum += r[row + i] * now;
    }
    y[t * n + column] = sum;
  }
}
