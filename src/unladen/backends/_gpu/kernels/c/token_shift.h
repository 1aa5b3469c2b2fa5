#use step column
// y[t] = x[t - 1] in each sequence. A thread takes a column of a sequence.
typedef struct {
  u32 n_cols;
} Params;

#bind struct Params params
#bind in float x
#bind out float slots
#bind out float y

KERNEL(token_shift) {
  const u32 n = params.n_cols, c = COLUMN;
  if (c >= n || GROUP_Y >= n_rows(args, N_SEQS)) return;
  const int source = batch(args, STATE_IN, GROUP_Y);
  const u32 end = (u32)batch(args, Q_START, GROUP_Y + 1u);
  float before = 0.0f;
  if (source >= 0) before = slots[(u32)source * n + c];
  for (u32 t = (u32)batch(args, Q_START, GROUP_Y); t < end; t++) {
    y[t * n + c] = before;
    before = x[t * n + c];
  }
  slots[(u32)batch(args, STATE_OUT, GROUP_Y) * n + c] = before;
}
