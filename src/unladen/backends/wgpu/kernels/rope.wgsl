#use step element
// Rotates pairs of every head, counted from its column `first`: (2i, 2i + 1), or with neox
// (i, i + n_rot / 2).
struct Params {
  n_cols: u32,
  head_dim: u32,
  n_rot: u32,
  neox: u32,
  first: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> table: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROWS) * params.n_cols) { return; }
  // Round the end of u32 for columns before the first.
  let d = i % params.n_cols % params.head_dim - params.first;
  if (d >= params.n_rot) {
    y[i] = x[i];
    return;
  }
  let half_rot = params.n_rot / 2u;
  var pair = d / 2u;
  var is_second = d % 2u == 1u;
  var other = select(i + 1u, i - 1u, is_second);
  if (params.neox != 0u) {
    pair = d % half_rot;
    is_second = d >= half_rot;
    other = select(i + half_rot, i - half_rot, is_second);
  }
  let at = i / params.n_cols * params.n_rot + 2u * pair;
  let sine = select(-table[at + 1u], table[at + 1u], is_second);
  y[i] = x[i] * table[at] + x[other] * sine;
}
