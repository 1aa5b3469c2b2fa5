#use step element
// Copies cosines and sines that the host computed in float64.
struct Params {
  n_cols: u32,
  table: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  y[i] = bitcast<f32>(batch(ROPE_TABLES + params.table, i));
}
