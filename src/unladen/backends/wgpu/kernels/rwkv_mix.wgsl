#use step exp
// RWKV-7's state. A thread takes a column of a head of a sequence.
struct Params {
  n_heads: u32,
  dim: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> r: array<f32>;
@group(1) @binding(2) var<storage, read_write> g: array<f32>;
@group(1) @binding(3) var<storage, read_write> k: array<f32>;
@group(1) @binding(4) var<storage, read_write> v: array<f32>;
@group(1) @binding(5) var<storage, read_write> a: array<f32>;
@group(1) @binding(6) var<storage, read_write> b: array<f32>;
@group(1) @binding(7) var<storage, read_write> slots: array<f32>;
@group(1) @binding(8) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let dim = params.dim;
  let n = params.n_heads * dim;
  if (id.x >= n || id.y >= n_rows(N_SEQS)) { return; }
  let head = id.x / dim * dim;
  let at = (u32(batch(STATE_OUT, id.y)) * n + head) * dim + id.x % dim;
  let source = batch(STATE_IN, id.y);
  for (var i = 0u; i < dim; i++) {
    var before = 0.0;
    if (source >= 0) { before = slots[(u32(source) * n + head + i) * dim + id.x % dim]; }
    slots[at + i * dim] = before;
  }
  for (var t = u32(batch(Q_START, id.y)); t < u32(batch(Q_START, id.y + 1u)); t++) {
    let row = t * n + head;
    let value = v[t * n + id.x];
    var answer = 0.0;
    for (var i = 0u; i < dim; i++) { answer += a[row + i] * slots[at + i * dim]; }
    var sum = 0.0;
    for (var i = 0u; i < dim; i++) {
      let now = exp_f32(g[row + i]) * slots[at + i * dim] + b[row + i] * answer
                + k[row + i] * value;
      slots[at + i * dim] = now;
      sum += r[row + i] * now;
    }
    y[t * n + id.x] = sum;
  }
}
