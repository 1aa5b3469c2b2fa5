#use step exp
// Attention with one matrix for each head as its past. A thread takes a column of a head of a
// sequence.
struct Params {
  n_heads: u32,
  n_k_heads: u32,
  k_dim: u32,
  v_dim: u32,
  tiled: u32,
  per_row: u32,
  scale: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> q: array<f32>;
@group(1) @binding(2) var<storage, read_write> k: array<f32>;
@group(1) @binding(3) var<storage, read_write> v: array<f32>;
#if FIXED
@group(1) @binding(4) var<storage, read> decay: array<f32>;
#else
@group(1) @binding(4) var<storage, read_write> g: array<f32>;
#end
#if DELTA
@group(1) @binding(5) var<storage, read_write> beta: array<f32>;
#end
#if FIRST
@group(1) @binding(5) var<storage, read> first: array<f32>;
#end
@group(1) @binding(6) var<storage, read_write> slots: array<f32>;
@group(1) @binding(7) var<storage, read_write> y: array<f32>;

// The factor by which row i of the state of head `own`, counted over all tokens, decays.
fn kept(own: u32, i: u32) -> f32 {
#if FIXED
  return decay[own % params.n_heads];
#else
  if (params.per_row == 1u) { return exp_f32(g[own * params.k_dim + i]); }
  return exp_f32(g[own]);
#end
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let n = params.n_heads * params.v_dim;
  let k_dim = params.k_dim;
  if (id.x >= n || id.y >= n_rows(N_SEQS)) { return; }
  let head = id.x / params.v_dim;
  var k_head = head * params.n_k_heads / params.n_heads;
  if (params.tiled == 1u) { k_head = head % params.n_k_heads; }
  let stride = params.v_dim;
  let at = u32(batch(STATE_OUT, id.y)) * n * k_dim + head * k_dim * stride + id.x % stride;
  let source = batch(STATE_IN, id.y);
  for (var i = 0u; i < k_dim; i++) {
    var before = 0.0;
    if (source >= 0) {
      before = slots[u32(source) * n * k_dim + (head * k_dim + i) * stride + id.x % stride];
    }
    slots[at + i * stride] = before;
  }
  for (var t = u32(batch(Q_START, id.y)); t < u32(batch(Q_START, id.y + 1u)); t++) {
    let own = t * params.n_heads + head;
    let keys = (t * params.n_k_heads + k_head) * k_dim;
    var u = v[t * n + id.x];
#if DELTA
    var answer = 0.0;
    for (var i = 0u; i < k_dim; i++) {
      answer += k[keys + i] * kept(own, i) * slots[at + i * stride];
    }
    u = beta[own] * (u - answer);
#end
    var sum = 0.0;
    for (var i = 0u; i < k_dim; i++) {
      let before = slots[at + i * stride];
      let now = kept(own, i) * before + k[keys + i] * u;
      slots[at + i * stride] = now;
#if FIRST
      sum += q[keys + i] * (before + first[head * k_dim + i] * k[keys + i] * u);
#else
      sum += q[keys + i] * now;
#end
    }
    y[t * n + id.x] = params.scale * sum;
  }
}
