#use step sum
// Scales each head of `size` columns to length 1. A workgroup takes a head.
struct Params {
  n_cols: u32,
  size: u32,
  eps: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let n_groups = n_rows(ROW_KIND) * (params.n_cols / params.size);
  let at = min(id.x + id.y * groups.x, n_groups - 1u) * params.size;
  var s = 0.0;
  for (var i = lane; i < params.size; i += WG) { s += x[at + i] * x[at + i]; }
  let factor = 1.0 / sqrt(sum_all(who, s) + params.eps);
  for (var i = lane; i < params.size; i += WG) { y[at + i] = x[at + i] * factor; }
}
