#use step column exp activation
// Causal convolution along each sequence. A thread takes a channel of a sequence.
typedef struct {
  u32 n_channels, n_taps;
} Params;

#bind struct Params params
#bind in float x
#bind in float w
#if BIAS
#bind in float b
#end
#bind out float slots
#bind out float y

// Row r of the rows that were kept, followed by the step's own.
FN float row_at(ARGS, u32 seq, u32 c, u32 r) {
  const u32 n = params.n_channels, kept = params.n_taps - 1u;
  if (r >= kept) return x[((u32)batch(args, Q_START, seq) + r - kept) * n + c];
  const int source = batch(args, STATE_IN, seq);
  if (source < 0) return 0.0f;
  return slots[((u32)source * kept + r) * n + c];
}

KERNEL(conv1d) {
  const u32 n = params.n_channels, kept = params.n_taps - 1u, c = COLUMN, seq = GROUP_Y;
  if (c >= n || seq >= n_rows(args, N_SEQS)) return;
  const u32 first = (u32)batch(args, Q_START, seq);
  const u32 n_tokens = (u32)batch(args, Q_START, seq + 1u) - first;
  for (u32 t = 0u; t < n_tokens; t++) {
#if BIAS
    float sum = b[c];
#else
    float sum = 0.0f;
#end
    for (u32 j = 0u; j < params.n_taps; j++) {
      sum += w[c * params.n_taps + j] * row_at(args, seq, c, t + j);
    }
    y[(first + t) * n + c] = activate(sum);
  }
  const u32 to = (u32)batch(args, STATE_OUT, seq) * kept;
  for (u32 i = 0u; i < kept; i++) slots[(to + i) * n + c] = row_at(args, seq, c, n_tokens + i);
}
