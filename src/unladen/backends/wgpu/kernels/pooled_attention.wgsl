#use step exp cache_rows sum
// Attention to a window of the cache's keys and to every `ratio`-th of its values. Each row is both
// key and value. A workgroup takes one head of a token and WG rows at a time: first each thread
// computes a score, then each thread adds up four columns.
struct Params {
  n_heads: u32,
  block_tokens: u32,
  k_row_bytes: u32,
  v_row_bytes: u32,
  window: u32,
  ratio: u32,
  scale: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(3) var<storage, read_write> q: array<vec4f>;
@group(1) @binding(4) var<storage, read_write> y: array<vec4f>;
#if SINKS
@group(1) @binding(5) var<storage, read> sinks: array<f32>;
#end

const FOURS = KD / 4u;
const EACH = (FOURS + WG - 1u) / WG;
const LOWEST = -3.0e38;
// Marks a slot that lies in the cache's values, not its keys.
const POOLED = 0x80000000u;

var<workgroup> query: array<vec4f, FOURS>;
var<workgroup> row_at: array<u32, WG>;
var<workgroup> weight: array<f32, WG>;

fn row_four(at: u32, d: u32) -> vec4f {
  if (at >= POOLED) {
    let i = (at - POOLED) * params.v_row_bytes;
    return vec4f(value_one(i, d), value_one(i, d + 1u), value_one(i, d + 2u), value_one(i, d + 3u));
  }
  return key_four(at * params.k_row_bytes, d);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u, who: Thread) {
  let row = min(id.x + id.y * groups.x, n_rows(ROW_KIND) * params.n_heads - 1u);
  let t = row / params.n_heads;
  let seq = u32(batch(SEQ_OF, t));
  let n_seen = u32(batch(INDEX, t)) + 1u;
  for (var d = who.lane; d < FOURS; d += WG) { query[d] = q[row * FOURS + d]; }
  workgroupBarrier();

  let n_near = min(n_seen, params.window);
  let n = n_near + n_seen / params.ratio;
  var top = LOWEST;
  var total = 0.0;
#if SINKS
  top = sinks[row % params.n_heads];
  total = 1.0;
#end
  var acc: array<vec4f, EACH> = array<vec4f, EACH>();
  for (var tile = 0u; tile < n; tile += WG) {
    let i = tile + who.lane;
    var s = LOWEST;
    if (i < n) {
      var p = n_seen - n_near + i;
      if (i >= n_near) { p = (i - n_near + 1u) * params.ratio - 1u; }
      let slot = cache_block(seq, FIRST_COLUMN, p, params.block_tokens) * params.block_tokens
               + p % params.block_tokens;
      let at = select(slot, slot | POOLED, i >= n_near);
      row_at[who.lane] = at;
      s = 0.0;
      for (var d = 0u; d < FOURS; d++) { s += dot(query[d], row_four(at, 4u * d)); }
      s *= params.scale;
    }
    let next = max(top, max_all(who, s));
    let w = select(0.0, exp_f32(s - next), i < n);
    weight[who.lane] = w;
    let shrink = exp_f32(top - next);
    total = total * shrink + sum_all(who, w);
    top = next;
    for (var e = 0u; e < EACH; e++) {
      let d = who.lane + e * WG;
      if (d < FOURS) {
        acc[e] *= shrink;
        for (var k = 0u; k < min(WG, n - tile); k++) {
          acc[e] += weight[k] * row_four(row_at[k], 4u * d);
        }
      }
    }
    workgroupBarrier();
  }
  for (var e = 0u; e < EACH; e++) {
    let d = who.lane + e * WG;
    if (d < FOURS) { y[row * FOURS + d] = acc[e] / total; }
  }
}
