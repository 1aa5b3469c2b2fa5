#use step element exp activation
// y = act(a) * (b + up_offset). Each column of a is for `each` columns of b. With LIMITED, a is
// first clamped to at most gate_limit, and b to between -limit and limit.
struct Params {
  n_cols: u32,
  each: u32,
  limit: f32,
  up_offset: f32,
  gate_limit: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> a: array<f32>;
@group(1) @binding(2) var<storage, read_write> b: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  var gate = a[i / params.each];
  var up = b[i];
#if LIMITED
  gate = min(gate, params.gate_limit);
  up = clamp(up, -params.limit, params.limit);
#end
  y[i] = activate(gate) * (up + params.up_offset);
}
