#use rounding
// Stores rows of x as int8 codes, with a scale for each run of 16 columns and the sum of the run's
// columns before rounding. A thread has four columns of a run, its neighbours have the others; RUNS
// runs next to each other have one scale. A thread stores KEPT times four columns.
@group(1) @binding(3) var<storage, read_write> codes: array<u32>;
@group(1) @binding(5) var<storage, read_write> scales: array<vec2f>;

// The largest size and the sum of each thread's four columns.
var<workgroup> of_fours: array<vec2f, KEPT * WG>;

// Stores v[k], the fours number first + lane + k * WG before `end`. All threads of the workgroup
// come by, and meet at a barrier before they come by again.
fn store_runs(lane: u32, first: u32, end: u32, v: ptr<function, array<vec4f, KEPT>>) {
  for (var k = 0u; k < KEPT; k++) {
    of_fours[k * WG + lane] = vec2f(largest_of((*v)[k]), dot((*v)[k], vec4f(1.0)));
  }
  workgroupBarrier();
  for (var k = 0u; k < KEPT; k++) {
    let four = first + lane + k * WG;
    var largest = 0.0;
    var sum = 0.0;
    for (var i = 0u; i < 4u * RUNS; i++) {
      let each = of_fours[k * WG + lane / (4u * RUNS) * (4u * RUNS) + i];
      largest = larger(largest, each.x);
      if (i / 4u == lane / 4u % RUNS) { sum += each.y; }
    }
    if (four < end) {
      codes[four] = rounded((*v)[k], inverse_scale(largest));
      if (four % 4u == 0u) { scales[four / 4u] = vec2f(largest / 127.0, sum); }
    }
  }
}
