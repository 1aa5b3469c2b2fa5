#use step element exp
// Weights of N residual streams: see HyperWeights in the graph's ops. A thread takes a row.
typedef struct {
  u32 n_rounds;
  float eps, magnitude, out_eps;
} Params;

#bind struct Params params
#bind in float x
#bind in float scale
#bind in float base
#bind out float y
#if SPREADS
#bind out float spread
#end

FN float argument(ARGS, u32 row, u32 i) {
  return scale[min_u32(i / N, 2u)] * x[row * M + i] + base[i];
}

KERNEL(hyper_weights) {
  const u32 row = ELEMENT;
  if (row >= n_rows(args, ROW_KIND)) return;
  for (u32 i = 0u; i < N; i++) y[row * N + i] = sigmoid(argument(args, row, i)) + params.eps;
#if SPREADS
  const u32 at = row * (N + 1u) * N;
  for (u32 i = 0u; i < N; i++) {
    spread[at + N * N + i] = params.magnitude * sigmoid(argument(args, row, N + i))
                             + params.out_eps;
  }
#if MIXES
  float a[N * N];
  for (u32 i = 0u; i < N; i++) {
    float top = argument(args, row, (2u + i) * N);
    for (u32 j = 1u; j < N; j++) top = max_f32(top, argument(args, row, (2u + i) * N + j));
    float sum = 0.0f;
    for (u32 j = 0u; j < N; j++) {
      a[i * N + j] = exp_f32(argument(args, row, (2u + i) * N + j) - top);
      sum += a[i * N + j];
    }
    for (u32 j = 0u; j < N; j++) a[i * N + j] = a[i * N + j] / sum + params.eps;
  }
  // Normalizes columns first, and then rows and columns in each further round.
  for (u32 turn = 0u; turn < 2u * params.n_rounds - 1u; turn++) {
    const u32 across = turn % 2u == 1u ? 1u : N;
    const u32 along = turn % 2u == 1u ? N : 1u;
    for (u32 i = 0u; i < N; i++) {
      float sum = params.eps;
      for (u32 j = 0u; j < N; j++) sum += a[i * along + j * across];
      for (u32 j = 0u; j < N; j++) a[i * along + j * across] /= sum;
    }
  }
  for (u32 i = 0u; i < N * N; i++) spread[at + i] = a[i];
#else
  for (u32 i = 0u; i < N * N; i++) spread[at + i] = i % (N + 1u) == 0u ? 1.0f : 0.0f;
#end
#end
}
