#use step element
// Adds the `count` streams of one input to the weighted sums, with the weights from row `first` on.
// The first input starts the sums.
typedef struct {
  u32 width, n_in, n_out, first, count;
} Params;

#bind struct Params params
#bind in float x
#bind in float w
#bind out float y

KERNEL(hyper_mix) {
  const u32 i = ELEMENT, n_cols = params.n_out * params.width;
  if (i >= n_rows(args, ROW_KIND) * n_cols) return;
  const u32 row = i / n_cols, to = i % n_cols / params.width;
#if FURTHER
  float sum = y[i];
#else
  float sum = 0.0f;
#end
  for (u32 s = 0u; s < params.count; s++) {
    sum += w[(row * params.n_in + params.first + s) * params.n_out + to]
           * x[(row * params.count + s) * params.width + i % params.width];
  }
  y[i] = sum;
}
