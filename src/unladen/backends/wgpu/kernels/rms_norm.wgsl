#use step sum
// y = x / sqrt(mean(x^2) + eps) * w, a workgroup for each group of `size` elements of a row; w is
// repeated every `period`.
struct Params {
  n_cols: u32,
  size: u32,
  eps: f32,
  period: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
#if WEIGHT
@group(1) @binding(2) var<storage, read> w: array<f32>;
#end
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let n_groups = n_rows(ROWS) * (params.n_cols / params.size);
  let at = min(id.x + id.y * groups.x, n_groups - 1u) * params.size;
  var s = 0.0;
  for (var i = lane; i < params.size; i += WG) { s += x[at + i] * x[at + i]; }
  let factor = 1.0 / sqrt(sum_all(who, s) / f32(params.size) + params.eps);
  for (var i = lane; i < params.size; i += WG) {
    var value = x[at + i] * factor;
#if WEIGHT
    value *= w[(at + i) % params.n_cols % params.period];
#end
    y[at + i] = value;
  }
}
