#use step element columns rounding
// Rounds runs of 16 columns of x to int8, and stores the scale of each run and the sum of its
// columns before rounding. A thread takes a run.
typedef struct {
  u32 n_in;
} Matrix;

#bind struct Matrix m
#bind out u4 codes
#bind out f2 scales

KERNEL(quantize) {
  const u32 run = ELEMENT;
  if (run >= n_rows(args, ROW_KIND) * (m.n_in / 16u)) return;
  f4 v[4];
  float largest = 0.0f;
  float sum = 0.0f;
  for (u32 k = 0u; k < 4u; k++) {
    v[k] = columns(args, m.n_in, 16u * run, 4u * k);
    largest = max_f32(largest, f4_largest(f4_abs(v[k])));
    sum += f4_dot(v[k], F4_ALL(1.0f));
  }
  const float inverse = inverse_scale(largest);
  codes[run] = U4(rounded(v[0], inverse), rounded(v[1], inverse), rounded(v[2], inverse),
                  rounded(v[3], inverse));
  scales[run] = F2(largest / 127.0f, sum);
}
