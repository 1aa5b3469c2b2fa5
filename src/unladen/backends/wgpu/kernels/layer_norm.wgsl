#use step sum
// y = (x - mean) / sqrt(var + eps) * w + b. A workgroup takes a group of `size` elements of a row.
// w and b repeat every `period` elements.
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
#if BIAS
@group(1) @binding(3) var<storage, read> b: array<f32>;
#end
@group(1) @binding(4) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
         who: Thread) {
  let lane = who.lane;
  let n = params.size;
  let n_groups = n_rows(ROW_KIND) * (params.n_cols / n);
  let at = min(id.x + id.y * groups.x, n_groups - 1u) * n;
  var s = 0.0;
  for (var i = lane; i < n; i += WG) { s += x[at + i]; }
  let mean = sum_all(who, s) / f32(n);
  var squares = 0.0;
  for (var i = lane; i < n; i += WG) { squares += (x[at + i] - mean) * (x[at + i] - mean); }
  let factor = 1.0 / sqrt(sum_all(who, squares) / f32(n) + params.eps);
  for (var i = lane; i < n; i += WG) {
    var value = (x[at + i] - mean) * factor;
    let column = (at + i) % params.n_cols % params.period;
#if WEIGHT
    value *= w[column];
#end
#if BIAS
    value += b[column];
#end
    y[at + i] = value;
  }
}
