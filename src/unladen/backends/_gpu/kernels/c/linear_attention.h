#use step column exp
// Attention with one matrix for each head as its past. A thread takes a column of a head of a
// sequence.
typedef struct {
  u32 n_heads, n_k_heads, k_dim, v_dim, tiled, per_row;
  float scale;
} Params;

#bind struct Params params
#bind in float q
#bind in float k
#bind in float v
#if FIXED
#bind in float decay
#else
#bind in float g
#end
#if DELTA
#bind in float beta
#end
#if FIRST
#bind in float first
#end
#bind out float slots
#bind out float y

// The factor by which row i of the state of head `own`, counted over all tokens, decays.
FN float kept(ARGS, u32 own, u32 i) {
#if FIXED
  return decay[own % params.n_heads];
#else
  if (params.per_row == 1u) return exp_f32(g[own * params.k_dim + i]);
  return exp_f32(g[own]);
#end
}

KERNEL(linear_attention) {
  const u32 n = params.n_heads * params.v_dim, k_dim = params.k_dim, stride = params.v_dim;
  const u32 column = COLUMN, seq = GROUP_Y;
  if (column >= n || seq >= n_rows(args, N_SEQS)) return;
  const u32 head = column / stride;
  const u32 k_head = params.tiled == 1u ? head % params.n_k_heads
                                        : head * params.n_k_heads / params.n_heads;
  const u32 own_at = head * k_dim * stride + column % stride;
  const u32 at = (u32)batch(args, STATE_OUT, seq) * n * k_dim + own_at;
  const int source = batch(args, STATE_IN, seq);
  for (u32 i = 0u; i < k_dim; i++) {
    slots[at + i * stride] = source >= 0 ? slots[(u32)source * n * k_dim + own_at + i * stride]
                                         : 0.0f;
  }
  const u32 end = (u32)batch(args, Q_START, seq + 1u);
  for (u32 t = (u32)batch(args, Q_START, seq); t < end; t++) {
    const u32 own = t * params.n_heads + head;
    const u32 at_k = (t * params.n_k_heads + k_head) * k_dim;
    float u = v[t * n + column];
#if DELTA
    float answer = 0.0f;
    for (u32 i = 0u; i < k_dim; i++) {
      answer += k[at_k + i] * kept(args, own, i) * slots[at + i * stride];
    }
    u = beta[own] * (u - answer);
#end
    float sum = 0.0f;
    for (u32 i = 0u; i < k_dim; i++) {
      const float before = slots[at + i * stride];
      const float now = kept(args, own, i) * before + k[at_k + i] * u;
      slots[at + i * stride] = now;
#if FIRST
      sum += q[at_k + i] * (before + first[head * k_dim + i] * k[at_k + i] * u);
#else
      sum += q[at_k + i] * now;
#end
    }
    y[t * n + column] = params.scale * sum;
  }
}
