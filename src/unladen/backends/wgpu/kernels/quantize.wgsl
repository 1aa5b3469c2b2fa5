#use step columns runs
// Rounds runs of 16 columns of x to int8, and stores the scale of each run and the sum of its
// columns before rounding. A thread takes four columns.
struct Matrix {
  n_in: u32,
}

@group(1) @binding(0) var<uniform> m: Matrix;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let first = (id.x + id.y * groups.x) * WG;
  let end = n_rows(ROW_KIND) * (m.n_in / 4u);
  var v: array<vec4f, KEPT>;
  if (first + lane < end) { v[0] = columns(4u * (first + lane), 0u); }
  store_runs(lane, first, end, &v);
}
