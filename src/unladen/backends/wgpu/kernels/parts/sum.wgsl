#use thread
// Sums and maxima over a workgroup of WG threads (a power of two). With SUBGROUPS the hardware
// reduces each subgroup, else a fixed tree does.
var<workgroup> shared_values: array<f32, WG>;

fn sum_all(who: Thread, x: f32) -> f32 {
#if SUBGROUPS
  let part = subgroupAdd(x);
  if (who.in_subgroup == 0u) { shared_values[who.subgroup] = part; }
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < who.n_subgroups; i++) { total += shared_values[i]; }
#else
  shared_values[who.lane] = x;
  workgroupBarrier();
  for (var half_size = WG / 2u; half_size > 0u; half_size /= 2u) {
    if (who.lane < half_size) {
      shared_values[who.lane] += shared_values[who.lane + half_size];
    }
    workgroupBarrier();
  }
  let total = shared_values[0];
#end
  workgroupBarrier();
  return total;
}

fn max_all(who: Thread, x: f32) -> f32 {
#if SUBGROUPS
  let part = subgroupMax(x);
  if (who.in_subgroup == 0u) { shared_values[who.subgroup] = part; }
  workgroupBarrier();
  var largest = shared_values[0];
  for (var i = 1u; i < who.n_subgroups; i++) { largest = max(largest, shared_values[i]); }
#else
  shared_values[who.lane] = x;
  workgroupBarrier();
  for (var half_size = WG / 2u; half_size > 0u; half_size /= 2u) {
    if (who.lane < half_size) {
      shared_values[who.lane] = max(shared_values[who.lane], shared_values[who.lane + half_size]);
    }
    workgroupBarrier();
  }
  let largest = shared_values[0];
#end
  workgroupBarrier();
  return largest;
}
