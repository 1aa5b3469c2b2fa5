#use step columns rounding
// Rounds runs of 16 columns of x to int8, and stores the scale of each run and the sum of its
// columns before rounding. A thread takes a run.
struct Matrix {
  n_in: u32,
}

@group(1) @binding(0) var<uniform> m: Matrix;
@group(1) @binding(1) var<storage, read_write> codes: array<vec4u>;
@group(1) @binding(2) var<storage, read_write> scales: array<vec2f>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let run = (id.x + id.y * groups.x) * WG + lane;
  if (run >= n_rows(ROW_KIND) * (m.n_in / 16u)) { return; }
  var v: array<vec4f, 4>;
  var largest = 0.0;
  var sum = 0.0;
  for (var k = 0u; k < 4u; k++) {
    v[k] = columns(16u * run, 4u * k);
    largest = larger(largest, largest_of(v[k]));
    sum += dot(v[k], vec4f(1.0));
  }
  let inverse = inverse_scale(largest);
  codes[run] = vec4u(rounded(v[0], inverse), rounded(v[1], inverse), rounded(v[2], inverse),
                     rounded(v[3], inverse));
  scales[run] = vec2f(largest / 127.0, sum);
}
