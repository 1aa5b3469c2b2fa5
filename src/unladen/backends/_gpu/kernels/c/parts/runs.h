#use rounding
// Stores rows of x as int8 codes, with a scale for each run of 16 columns and the sum of the run's
// columns before rounding. A thread has four columns of a run, its neighbours have the others; RUNS
// runs next to each other have one scale. A thread stores KEPT times four columns.
#bind out u32 codes
#bind out f2 scales
#if SHUFFLES
#else
#shared f2 of_fours (KEPT * WG)
#end

// Turns the largest size and the sum of each four columns into those of their runs: the largest of
// all that have one scale, the sum of 16 columns. All threads of the workgroup come by, and meet at
// a barrier before they come by again.
FN void join_runs(ARGS, PRIVATE f2 *found) {
#if SHUFFLES
  for (u32 k = 0u; k < KEPT; k++) {
    float largest = found[k].x, sum = found[k].y;
    for (u32 m = 1u; m < 4u * RUNS; m *= 2u) largest = larger(largest, shuffle_xor(largest, m));
    for (u32 m = 1u; m < 4u; m *= 2u) sum += shuffle_xor(sum, m);
    found[k] = F2(largest, sum);
  }
#else
  for (u32 k = 0u; k < KEPT; k++) of_fours[k * WG + LANE] = found[k];
  BARRIER();
  for (u32 k = 0u; k < KEPT; k++) {
    float largest = 0.0f, sum = 0.0f;
    for (u32 i = 0u; i < 4u * RUNS; i++) {
      const f2 each = of_fours[k * WG + LANE / (4u * RUNS) * (4u * RUNS) + i];
      largest = larger(largest, each.x);
      if (i / 4u == LANE / 4u % RUNS) sum += each.y;
    }
    found[k] = F2(largest, sum);
  }
#end
}

// Stores v[k], the fours number first + LANE + k * WG before `end`.
FN void store_runs(ARGS, u32 first, u32 end, PRIVATE const f4 *v) {
  f2 found[KEPT];
  for (u32 k = 0u; k < KEPT; k++) found[k] = F2(largest_of(v[k]), f4_dot(v[k], F4_ALL(1.0f)));
  join_runs(args, found);
  for (u32 k = 0u; k < KEPT; k++) {
    const u32 four = first + LANE + k * WG;
    if (four < end) {
      codes[four] = rounded(v[k], inverse_scale(found[k].x));
      if (four % 4u == 0u) scales[four / 4u] = F2(scale_of(found[k].x), found[k].y);
    }
  }
}
