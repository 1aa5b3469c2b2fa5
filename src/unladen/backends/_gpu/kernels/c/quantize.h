#use step element columns rounding
// Rounds runs of 16 columns of x to int8, and stores the scale of each run and the sum of its
// columns before rounding. A thread takes RUNS runs, which have one scale.
typedef struct {
  u32 n_in;
} Matrix;

#bind struct Matrix m
#bind out u4 codes
#bind out f2 scales
#ifndef RUNS
#define RUNS 1u
#endif

KERNEL(quantize) {
  const u32 first = ELEMENT * RUNS;
  if (first >= n_rows(args, ROW_KIND) * (m.n_in / 16u)) return;
  f4 v[4u * RUNS];
  float largest = 0.0f;
  for (u32 k = 0u; k < 4u * RUNS; k++) {
    v[k] = columns(args, m.n_in, 16u * first, 4u * k);
    largest = larger(largest, largest_of(v[k]));
  }
  const float inverse = inverse_scale(largest);
  for (u32 r = 0u; r < RUNS; r++) {
    float sum = 0.0f;
    for (u32 k = 4u * r; k < 4u * r + 4u; k++) sum += f4_dot(v[k], F4_ALL(1.0f));
    codes[first + r] = U4(rounded(v[4u * r], inverse), rounded(v[4u * r + 1u], inverse),
                          rounded(v[4u * r + 2u], inverse), rounded(v[4u * r + 3u], inverse));
    scales[first + r] = F2(largest / 127.0f, sum);
  }
}
