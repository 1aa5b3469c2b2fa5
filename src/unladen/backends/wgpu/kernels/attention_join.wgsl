#use step exp
// Adds up what the workgroups found that shared the keys of a query row: each its sums of values,
// the largest score that they are relative to, and the sum of its weights. A workgroup for each row.
struct Params {
  n_heads: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let row = id.x + id.y * groups.x;
  if (row >= n_rows(N_TOKENS) * params.n_heads) { return; }
  let n_splits = u32(step[N_SPLITS]);
  let at = row * n_splits * (VD + 2u);
  var top = x[at + VD];
  for (var s = 1u; s < n_splits; s++) { top = max(top, x[at + s * (VD + 2u) + VD]); }
  var sum = 0.0;
  for (var s = 0u; s < n_splits; s++) {
    let part = at + s * (VD + 2u) + VD;
    sum += x[part + 1u] * exp_f32(x[part] - top);
  }
  for (var d = lane; d < VD; d += 64u) {
    var value = 0.0;
    for (var s = 0u; s < n_splits; s++) {
      let part = at + s * (VD + 2u);
      value += x[part + d] * exp_f32(x[part + VD] - top);
    }
    y[row * VD + d] = value / sum;
  }
}
