#use step exp
// Selective state spaces. A thread takes a channel of a head of a sequence.
struct Params {
  n_heads: u32,
  n_channels: u32,
  n_state: u32,
  n_groups: u32,
  n_decays: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> dt: array<f32>;
@group(1) @binding(3) var<storage, read_write> b: array<f32>;
@group(1) @binding(4) var<storage, read_write> c: array<f32>;
@group(1) @binding(5) var<storage, read> a: array<f32>;
@group(1) @binding(6) var<storage, read> d: array<f32>;
@group(1) @binding(7) var<storage, read_write> slots: array<f32>;
@group(1) @binding(8) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let n = params.n_heads * params.n_channels;
  let n_state = params.n_state;
  if (id.x >= n || id.y >= n_rows(N_SEQS)) { return; }
  let head = id.x / params.n_channels;
  let group = head / (params.n_heads / params.n_groups);
  let source = batch(STATE_IN, id.y);
  let at = (u32(batch(STATE_OUT, id.y)) * n + id.x) * n_state;
  for (var i = 0u; i < n_state; i++) {
    var kept = 0.0;
    if (source >= 0) { kept = slots[(u32(source) * n + id.x) * n_state + i]; }
    slots[at + i] = kept;
  }
  for (var t = u32(batch(Q_START, id.y)); t < u32(batch(Q_START, id.y + 1u)); t++) {
    let step_size = dt[t * params.n_heads + head];
    let value = x[t * n + id.x];
    let shared_at = (t * params.n_groups + group) * n_state;
    var sum = 0.0;
    for (var i = 0u; i < n_state; i++) {
      let decay = a[head * params.n_decays + i % params.n_decays];
      let now = exp_f32(step_size * decay) * slots[at + i] + value * step_size * b[shared_at + i];
      slots[at + i] = now;
      sum += now * c[shared_at + i];
    }
    y[t * n + id.x] = sum + d[head] * value;
  }
}
