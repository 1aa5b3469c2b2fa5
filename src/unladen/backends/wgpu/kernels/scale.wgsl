#use step element
// y = s x, multiplied with w or divided by it. Each of the n_weights numbers of w serves as many
// neighbouring columns.
struct Params {
  n_cols: u32,
  s: f32,
  n_weights: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;
#if WEIGHT
@group(1) @binding(3) var<storage, read> w: array<f32>;
#end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  var value = params.s * x[i];
#if WEIGHT
  let factor = w[i % params.n_cols / (params.n_cols / params.n_weights)];
#if DIVIDE
  value /= factor;
#else
  value *= factor;
#end
#end
  y[i] = value;
}
