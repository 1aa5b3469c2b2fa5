#use step element
// y[t] = 1 + scale log(1 + (position + offset) / length).
struct Params {
  length: u32,
  offset: u32,
  scale: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let t = element(id, groups, lane);
  if (t >= n_rows(ROW_KIND)) { return; }
  let n = (u32(batch(POSITIONS, t)) + params.offset) / params.length;
  y[t] = 1.0 + params.scale * log(1.0 + f32(n));
}
