#use step sum stored store_row
#if TURNED
#use turn
#end
// What `rms_norm`, `rope` and `kv_write` give together. A workgroup takes a head of a token: it
// norms a head of the queries x and rotates it into y, or it norms and rotates a head of keys and
// stores it and its values in the cache. Without TURNED nothing is rotated.
struct Params {
  // Heads of queries and of keys.
  n_queries: u32,
  n_heads: u32,
  block_tokens: u32,
  // How many numbers a row has, and how many bytes it takes in the cache.
  k_numbers: u32,
  k_row_bytes: u32,
  v_numbers: u32,
  v_row_bytes: u32,
  query_eps: f32,
  key_eps: f32,
#if TURNED
  n_rot: u32,
  neox: u32,
  first: u32,
#end
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> k: array<f32>;
@group(1) @binding(3) var<storage, read_write> v: array<f32>;
@group(1) @binding(4) var<storage, read> query_w: array<f32>;
@group(1) @binding(5) var<storage, read> key_w: array<f32>;
@group(1) @binding(6) var<storage, read_write> y: array<f32>;
@group(1) @binding(7) var<storage, read_write> keys: array<atomic<u32>>;
@group(1) @binding(8) var<storage, read_write> values: array<atomic<u32>>;
#if TURNED
@group(1) @binding(9) var<storage, read_write> table: array<f32>;
#end

// The workgroup's head of queries or of keys: normed, then also rotated.
var<workgroup> normed: array<f32, ROW>;
var<workgroup> rotated: array<f32, ROW>;

// The number that `i` is of all values, or in the workgroup's head of keys.
fn number(i: u32) -> f32 {
  if (is_value) { return v[i]; }
  return rotated[i];
}

// Norms the head that begins at number `start` of the queries or of the keys.
fn norm_head(who: Thread, is_query: bool, start: u32) {
  var s = 0.0;
  for (var d = who.lane; d < params.k_numbers; d += WG) {
    var own = 0.0;
    if (is_query) { own = x[start + d]; } else { own = k[start + d]; }
    normed[d] = own;
    s += own * own;
  }
  let eps = select(params.key_eps, params.query_eps, is_query);
  let factor = 1.0 / sqrt(sum_all(who, s) / f32(params.k_numbers) + eps);
  for (var d = who.lane; d < params.k_numbers; d += WG) {
    var weight = 0.0;
    if (is_query) { weight = query_w[d]; } else { weight = key_w[d]; }
    normed[d] = normed[d] * factor * weight;
  }
  workgroupBarrier();
}

// Number d of the head, of token t, rotated.
fn turned(t: u32, d: u32) -> f32 {
#if TURNED
  let at = d - params.first;  // wraps around before the first rotated one
  if (at < params.n_rot) {
    let by = turn(t, at);
    return normed[d] * by.own + normed[u32(i32(d) + by.other)] * by.partner;
  }
#end
  return normed[d];
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let n_each = params.n_queries + params.n_heads;
  // Workgroups beyond the last head do what the last one does.
  let group = min(id.x + id.y * groups.x, n_rows(ROW_KIND) * n_each - 1u);
  let t = group / n_each;
  let is_query = group % n_each < params.n_queries;
  let head = select(group % n_each - params.n_queries, group % n_each, is_query);
  let row = t * select(params.n_heads, params.n_queries, is_query) + head;
  norm_head(who, is_query, row * params.k_numbers);
  var beyond = 0.0;
  for (var d = lane; d < params.k_numbers; d += WG) {
    rotated[d] = turned(t, d);
    if (is_beyond(rotated[d])) { beyond = 1.0; }
  }
  beyond = max_all(who, beyond);  // all threads have stored what they rotated
  if (is_query) {
    for (var d = lane; d < params.k_numbers; d += WG) { y[row * params.k_numbers + d] = rotated[d]; }
    return;
  }
  let slot = cache_slot(t, head, params.n_heads, params.block_tokens);
  for (var d = at_once(K_TYPE) * lane; d < params.k_numbers; d += at_once(K_TYPE) * WG) {
    store_numbers(K_TYPE, slot * params.k_row_bytes, d, d);
  }
  is_value = true;
  let at = slot * params.v_row_bytes;
  for (var d = at_once(V_TYPE) * lane; d < params.v_numbers; d += at_once(V_TYPE) * WG) {
    store_numbers(V_TYPE, at, d, row * params.v_numbers + d);
    if (d == 0u && beyond > 0.0) { spoil(at); }
  }
}
