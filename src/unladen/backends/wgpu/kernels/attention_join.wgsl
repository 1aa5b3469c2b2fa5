#use step exp
// Adds up the shares of a query row's keys. Each share left its sums of values, the largest score
// that they are relative to, and the sum of its weights. A workgroup takes a row, a thread a share.
struct Params {
  n_heads: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

var<workgroup> largest: array<f32, MAX_SPLITS>;
var<workgroup> factor: array<f32, MAX_SPLITS>;
var<workgroup> counted: array<f32, MAX_SPLITS>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  // Workgroups beyond the last row repeat it: all must come to the barriers.
  let row = min(id.x + id.y * groups.x, n_rows(N_TOKENS) * params.n_heads - 1u);
  let n_splits = min(u32(step[N_SPLITS]), MAX_SPLITS);
  let at = row * n_splits * (VD + 2u);
  if (lane < n_splits) { largest[lane] = x[at + lane * (VD + 2u) + VD]; }
  workgroupBarrier();
  if (lane < n_splits) {
    var top = largest[0];
    for (var s = 1u; s < n_splits; s++) { top = max(top, largest[s]); }
    factor[lane] = exp_f32(largest[lane] - top);
    counted[lane] = factor[lane] * x[at + lane * (VD + 2u) + VD + 1u];
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var s = 0u; s < n_splits; s++) { sum += counted[s]; }
  for (var d = lane; d < VD; d += MAX_SPLITS) {
    var value = 0.0;
    for (var s = 0u; s < n_splits; s++) { value += x[at + s * (VD + 2u) + d] * factor[s]; }
    y[row * VD + d] = value / sum;
  }
}
