// Sums and maxima over a workgroup of WG threads (a power of two). With SUBGROUPS the hardware
// reduces each subgroup, else a fixed tree does.
#shared float shared_values WG

FN float sum_all(ARGS, float own) {
#if SUBGROUPS
  const float part = subgroup_add(own);
  if (IN_SUBGROUP == 0u) shared_values[SUBGROUP] = part;
  BARRIER();
  float total = 0.0f;
  for (u32 i = 0u; i < N_SUBGROUPS; i++) total += shared_values[i];
#else
  shared_values[LANE] = own;
  BARRIER();
  for (u32 n = WG / 2u; n > 0u; n /= 2u) {
    if (LANE < n) shared_values[LANE] += shared_values[LANE + n];
    BARRIER();
  }
  const float total = shared_values[0];
#end
  BARRIER();
  return total;
}

FN float max_all(ARGS, float own) {
#if SUBGROUPS
  const float part = subgroup_max(own);
  if (IN_SUBGROUP == 0u) shared_values[SUBGROUP] = part;
  BARRIER();
  float largest = shared_values[0];
  for (u32 i = 1u; i < N_SUBGROUPS; i++) largest = max_f32(largest, shared_values[i]);
#else
  shared_values[LANE] = own;
  BARRIER();
  for (u32 n = WG / 2u; n > 0u; n /= 2u) {
    if (LANE < n) shared_values[LANE] = max_f32(shared_values[LANE], shared_values[LANE + n]);
    BARRIER();
  }
  const float largest = shared_values[0];
#end
  BARRIER();
  return largest;
}
