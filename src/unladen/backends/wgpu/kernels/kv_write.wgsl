#use step stored store_row
#if TURNED
#use turn
#end
// Stores rows of keys and of values in the cache. A thread stores two numbers, or a block of 32 in
// Q8_0. With TURNED, keys are rotated as `rope` does before they are stored, and queries x of
// `n_queries` columns are rotated into y, two numbers for each thread.
struct Params {
  n_heads: u32,
  block_tokens: u32,
  // How many numbers a row has, and how many bytes it takes in the cache.
  k: vec2u,
  v: vec2u,
#if TURNED
  n_queries: u32,
  n_rot: u32,
  neox: u32,
  first: u32,
#end
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> k: array<f32>;
@group(1) @binding(2) var<storage, read_write> v: array<f32>;
@group(1) @binding(3) var<storage, read_write> keys: array<atomic<u32>>;
@group(1) @binding(4) var<storage, read_write> values: array<atomic<u32>>;

#if TURNED
@group(1) @binding(5) var<storage, read_write> x: array<f32>;
@group(1) @binding(6) var<storage, read_write> y: array<f32>;
@group(1) @binding(7) var<storage, read_write> table: array<f32>;
#end

#if TURNED
// Key number i of all tokens' heads, rotated.
fn key(i: u32) -> f32 {
  let d = i % params.k.x - params.first;  // wraps around before the first rotated one
  if (d >= params.n_rot) { return k[i]; }
  let by = turn(i / params.k.x / params.n_heads, d);
  return k[i] * by.own + k[u32(i32(i) + by.other)] * by.partner;
}

// Rotates queries i and i + 1 of all tokens' heads.
fn turn_queries(i: u32) {
  for (var q = i; q < i + 2u; q++) {
    let d = q % params.k.x - params.first;
    var by = Turn(0, 1.0, 0.0);
    if (d < params.n_rot) { by = turn(q / params.n_queries, d); }
    y[q] = x[q] * by.own + x[u32(i32(q) + by.other)] * by.partner;
  }
}
#else
fn key(i: u32) -> f32 {
  return k[i];
}
#end

fn number(i: u32) -> f32 {
  if (is_value) { return v[i]; }
  return key(i);
}

// Whether float16 can't hold a key of head `row` of all tokens' heads.
fn key_is_beyond(row: u32) -> bool {
  var beyond = false;
  for (var j = 0u; j < params.k.x && K_TYPE != F32; j++) {
    beyond = beyond || is_beyond(key(row * params.k.x + j));
  }
  return beyond;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  var i = (id.x + id.y * groups.x) * WG + lane;
#if TURNED
  let n_pairs = n_rows(N_TOKENS) * (params.n_queries / 2u);
  if (i < n_pairs) {
    turn_queries(2u * i);
    return;
  }
  i -= n_pairs;
#end
  let n_rows_of_heads = n_rows(N_TOKENS) * params.n_heads;
  var rows = params.k;
  var kind = K_TYPE;
  let n_keys = n_rows_of_heads * (rows.x / at_once(kind));
  if (i >= n_keys) {
    is_value = true;
    i -= n_keys;
    rows = params.v;
    kind = V_TYPE;
  }
  let per_row = rows.x / at_once(kind);
  if (i >= n_rows_of_heads * per_row) { return; }
  let head = i / per_row % params.n_heads;
  let t = i / per_row / params.n_heads;
  let d = i % per_row * at_once(kind);
  let from_x = (t * params.n_heads + head) * rows.x + d;
  let at = cache_slot(t, head, params.n_heads, params.block_tokens) * rows.y;
  store_numbers(kind, at, d, from_x);
  if (is_value && d == 0u && key_is_beyond(t * params.n_heads + head)) { spoil(at); }
}
