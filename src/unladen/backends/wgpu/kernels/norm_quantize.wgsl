#use step sum rounding
// What `rms_norm` and `quantize` give together: y = x / sqrt(mean(x^2) + eps) * w as int8, a scale
// for each run of 16 columns, and the sum of these before rounding. A workgroup takes a row. A
// thread takes RUNS runs at a time, which have one scale.
struct Params {
  n_cols: u32,
  eps: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<vec4f>;
#if WEIGHT
@group(1) @binding(2) var<storage, read> w: array<vec4f>;
#end
@group(1) @binding(3) var<storage, read_write> codes: array<vec4u>;
@group(1) @binding(4) var<storage, read_write> scales: array<vec2f>;

fn scaled(row: u32, four: u32, factor: f32) -> vec4f {
  let v = x[row * (params.n_cols / 4u) + four] * factor;
#if WEIGHT
  return v * w[four];
#else
  return v;
#end
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let row = min(id.x + id.y * groups.x, n_rows(ROW_KIND) - 1u);
  let n_fours = params.n_cols / 4u;
  let n_runs = params.n_cols / 16u;
  var s = 0.0;
  for (var i = lane; i < n_fours; i += WG) {
    let v = x[row * n_fours + i];
    s += dot(v, v);
  }
  let factor = 1.0 / sqrt(sum_all(who, s) / f32(params.n_cols) + params.eps);
  for (var first = RUNS * lane; first < n_runs; first += RUNS * WG) {
    var v: array<vec4f, 4u * RUNS>;
    var largest = 0.0;
    for (var k = 0u; k < 4u * RUNS; k++) {
      v[k] = scaled(row, 4u * first + k, factor);
      largest = larger(largest, largest_of(v[k]));
    }
    let inverse = inverse_scale(largest);
    for (var r = 0u; r < RUNS; r++) {
      var sum = 0.0;
      for (var k = 4u * r; k < 4u * r + 4u; k++) { sum += dot(v[k], vec4f(1.0)); }
      codes[row * n_runs + first + r] =
          vec4u(rounded(v[4u * r], inverse), rounded(v[4u * r + 1u], inverse),
                rounded(v[4u * r + 2u], inverse), rounded(v[4u * r + 3u], inverse));
      scales[row * n_runs + first + r] = vec2f(largest / 127.0, sum);
    }
  }
}
