#use step element exp
// Weights of N residual streams: see HyperWeights in the graph's ops. A thread takes a row.
struct Params {
  n_rounds: u32,
  eps: f32,
  magnitude: f32,
  out_eps: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read> scale: array<f32>;
@group(1) @binding(3) var<storage, read> base: array<f32>;
@group(1) @binding(4) var<storage, read_write> y: array<f32>;
#if SPREADS
@group(1) @binding(5) var<storage, read_write> spread: array<f32>;
#end

fn argument(row: u32, i: u32) -> f32 {
  return scale[min(i / N, 2u)] * x[row * M + i] + base[i];
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let row = element(id, groups, lane);
  if (row >= n_rows(ROW_KIND)) { return; }
  for (var i = 0u; i < N; i++) { y[row * N + i] = sigmoid(argument(row, i)) + params.eps; }
#if SPREADS
  let at = row * (N + 1u) * N;
  for (var i = 0u; i < N; i++) {
    spread[at + N * N + i] = params.magnitude * sigmoid(argument(row, N + i)) + params.out_eps;
  }
#if MIXES
  var a: array<f32, N * N> = array<f32, N * N>();
  for (var i = 0u; i < N; i++) {
    var top = argument(row, (2u + i) * N);
    for (var j = 1u; j < N; j++) { top = max(top, argument(row, (2u + i) * N + j)); }
    var sum = 0.0;
    for (var j = 0u; j < N; j++) {
      a[i * N + j] = exp_f32(argument(row, (2u + i) * N + j) - top);
      sum += a[i * N + j];
    }
    for (var j = 0u; j < N; j++) { a[i * N + j] = a[i * N + j] / sum + params.eps; }
  }
  // Normalizes columns first, and then rows and columns in each further round.
  for (var step_ = 0u; step_ < 2u * params.n_rounds - 1u; step_++) {
    let across = select(N, 1u, step_ % 2u == 1u);
    let along = select(1u, N, step_ % 2u == 1u);
    for (var i = 0u; i < N; i++) {
      var sum = params.eps;
      for (var j = 0u; j < N; j++) { sum += a[i * along + j * across]; }
      for (var j = 0u; j < N; j++) { a[i * along + j * across] /= sum; }
    }
  }
  for (var i = 0u; i < N * N; i++) { spread[at + i] = a[i]; }
#else
  for (var i = 0u; i < N * N; i++) { spread[at + i] = select(0.0, 1.0, i % (N + 1u) == 0u); }
#end
#end
}
