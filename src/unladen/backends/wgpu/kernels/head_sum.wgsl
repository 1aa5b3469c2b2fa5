#use step element
// y = the sum of every `size` columns of x; y has n_cols columns.
struct Params {
  n_cols: u32,
  size: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  var sum = 0.0;
  for (var j = 0u; j < params.size; j++) { sum += x[i * params.size + j]; }
  y[i] = sum;
}
