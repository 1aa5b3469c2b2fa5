#use step element turn
// Rotates pairs of every head, counted from its column `first`: (2i, 2i + 1), or with neox
// (i, i + n_rot / 2). With TWO, the first n_first columns of a row are those of x, the others those
// of x1.
struct Params {
  n_cols: u32,
  n_first: u32,
  head_dim: u32,
  n_rot: u32,
  neox: u32,
  first: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> table: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;
#if TWO
@group(1) @binding(4) var<storage, read_write> x1: array<f32>;
@group(1) @binding(5) var<storage, read_write> y1: array<f32>;
#end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let e = element(id, groups, lane);
  if (e >= n_rows(ROW_KIND) * params.n_cols) { return; }
  let t = e / params.n_cols;
  let c = e % params.n_cols;
  // Wraps around in u32 for columns before the first rotated one.
  let d = c % params.head_dim - params.first;
  var by = Turn(0, 1.0, 0.0);
  if (d < params.n_rot) { by = turn(t, d); }
#if TWO
  if (c >= params.n_first) {
    let i = t * (params.n_cols - params.n_first) + c - params.n_first;
    y1[i] = x1[i] * by.own + x1[u32(i32(i) + by.other)] * by.partner;
    return;
  }
#end
  let i = t * params.n_first + c;
  y[i] = x[i] * by.own + x[u32(i32(i) + by.other)] * by.partner;
}
