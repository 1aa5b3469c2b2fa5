#use step column exp
// Selective state spaces. A thread takes a channel of a head of a sequence.
typedef struct {
  u32 n_heads, n_channels, n_state, n_groups, n_decays;
} Params;

#bind struct Params params
#bind in float x
#bind in float dt
#bind in float b
#bind in float c
#bind in float a
#bind in float d
#bind out float slots
#bind out float y

KERNEL(ssm_scan) {
  const u32 n = params.n_heads * params.n_channels, n_state = params.n_state;
  const u32 channel = COLUMN, seq = GROUP_Y;
  if (channel >= n || seq >= n_rows(args, N_SEQS)) return;
  const u32 head = channel / params.n_channels;
  const u32 group = head / (params.n_heads / params.n_groups);
  const int source = batch(args, STATE_IN, seq);
  const u32 at = ((u32)batch(args, STATE_OUT, seq) * n + channel) * n_state;
  for (u32 i = 0u; i < n_state; i++) {
    slots[at + i] = source >= 0 ? slots[((u32)source * n + channel) * n_state + i] : 0.0f;
  }
  const u32 end = (u32)batch(args, Q_START, seq + 1u);
  for (u32 t = (u32)batch(args, Q_START, seq); t < end; t++) {
    const float duration = dt[t * params.n_heads + head];
    const float value = x[t * n + channel];
    const u32 shared_at = (t * params.n_groups + group) * n_state;
    float sum = 0.0f;
    for (u32 i = 0u; i < n_state; i++) {
      const float decay = a[head * params.n_decays + i % params.n_decays];
      const float now = exp_f32(duration * decay) * slots[at + i]
                        + value * duration * b[shared_at + i];
      slots[at + i] = now;
      sum += now * c[shared_at + i];
    }
    y[t * n + channel] = sum + d[head] * value;
  }
}
