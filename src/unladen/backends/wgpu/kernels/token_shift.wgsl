#use step
// y[t] = x[t - 1] in each sequence. A thread takes a column of a sequence.
struct Params {
  n_cols: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> slots: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let n = params.n_cols;
  if (id.x >= n || id.y >= n_rows(N_SEQS)) { return; }
  let source = batch(STATE_IN, id.y);
  var before = 0.0;
  if (source >= 0) { before = slots[u32(source) * n + id.x]; }
  for (var t = u32(batch(Q_START, id.y)); t < u32(batch(Q_START, id.y + 1u)); t++) {
    y[t * n + id.x] = before;
    before = x[t * n + id.x];
  }
  slots[u32(batch(STATE_OUT, id.y)) * n + id.x] = before;
}
