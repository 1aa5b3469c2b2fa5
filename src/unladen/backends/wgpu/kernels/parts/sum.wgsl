// Sums and maxima over a workgroup of WG threads (a power of two) in a fixed tree.
var<workgroup> shared_values: array<f32, WG>;

fn sum_all(lane: u32, x: f32) -> f32 {
  shared_values[lane] = x;
  workgroupBarrier();
  for (var half_size = WG / 2u; half_size > 0u; half_size /= 2u) {
    if (lane < half_size) { shared_values[lane] += shared_values[lane + half_size]; }
    workgroupBarrier();
  }
  let total = shared_values[0];
  workgroupBarrier();
  return total;
}

fn max_all(lane: u32, x: f32) -> f32 {
  shared_values[lane] = x;
  workgroupBarrier();
  for (var half_size = WG / 2u; half_size > 0u; half_size /= 2u) {
    if (lane < half_size) {
      shared_values[lane] = max(shared_values[lane], shared_values[lane + half_size]);
    }
    workgroupBarrier();
  }
  let largest = shared_values[0];
  workgroupBarrier();
  return largest;
}
