#use step element
// y[t] = the sum of weight * x over the pairs of token t with one of the n_held experts.
struct Params {
  n_cols: u32,
  n_used: u32,
  n_held: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> weights: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;
@group(1) @binding(4) var<storage, read_write> chosen: array<u32>;
#use moe_result

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  let pair = i / params.n_cols * params.n_used;
  var total = 0.0;
  for (var s = pair; s < pair + params.n_used; s++) {
    if (chosen[s] < params.n_held) {
      let col = i % params.n_cols;
      total += result_weight(s, chosen[s]) * x[s * params.n_cols + col];
#if DOWN_BIAS
      total += bias_of(s, chosen[s], params.n_cols, col);
#end
    }
  }
  y[i] = total;
}
