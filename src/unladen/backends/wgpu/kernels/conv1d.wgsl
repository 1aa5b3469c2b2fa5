#use step exp activation
// Causal convolution along each sequence. A thread takes a channel of a sequence.
struct Params {
  n_channels: u32,
  n_taps: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read> w: array<f32>;
#if BIAS
@group(1) @binding(3) var<storage, read> b: array<f32>;
#end
@group(1) @binding(4) var<storage, read_write> slots: array<f32>;
@group(1) @binding(5) var<storage, read_write> y: array<f32>;

// Row r of the rows that were kept, followed by the step's own.
fn row(seq: u32, c: u32, r: u32) -> f32 {
  let n = params.n_channels;
  let kept = params.n_taps - 1u;
  if (r >= kept) { return x[(u32(batch(Q_START, seq)) + r - kept) * n + c]; }
  let source = batch(STATE_IN, seq);
  if (source < 0) { return 0.0; }
  return slots[(u32(source) * kept + r) * n + c];
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let n = params.n_channels;
  let c = id.x;
  if (c >= n || id.y >= n_rows(N_SEQS)) { return; }
  let first = u32(batch(Q_START, id.y));
  let n_tokens = u32(batch(Q_START, id.y + 1u)) - first;
  for (var t = 0u; t < n_tokens; t++) {
    var sum = 0.0;
#if BIAS
    sum = b[c];
#end
    for (var j = 0u; j < params.n_taps; j++) {
      sum += w[c * params.n_taps + j] * row(id.y, c, t + j);
    }
    y[(first + t) * n + c] = activate(sum);
  }
  let kept = params.n_taps - 1u;
  let to = u32(batch(STATE_OUT, id.y)) * kept;
  for (var i = 0u; i < kept; i++) { slots[(to + i) * n + c] = row(id.y, c, n_tokens + i); }
}
