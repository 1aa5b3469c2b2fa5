#use step element columns runs
// Rounds runs of 16 columns of x to int8, and stores the scale of each run and the sum of its
// columns before rounding. A thread takes four columns.
typedef struct {
  u32 n_in;
} Matrix;

#bind struct Matrix m

KERNEL(quantize) {
  u32 end = ELEMENT - LANE + WG;
  // The other workgroups are full.
  if (GROUP_Y > 0u || m.n_in % (4u * WG) != 0u) end = n_rows(args, ROW_KIND) * (m.n_in / 4u);
  f4 v[1];
  v[0] = F4_ALL(0.0f);
  if (ELEMENT < end) v[0] = columns(args, m.n_in, 4u * ELEMENT, 0u);
  store_runs(args, ELEMENT - LANE, end, v);
}
