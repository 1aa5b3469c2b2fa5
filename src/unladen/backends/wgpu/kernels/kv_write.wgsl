#use step stored
#if TURNED
#use turn
#end
// Stores rows of keys and of values in the cache. A thread stores two numbers, or a block of 32 in
// Q8_0. Rows of Q8_0 may share a word with their neighbours, so halves of words are changed one by
// one. With TURNED, keys are rotated as `rope` does before they are stored, and queries x of
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

var<private> is_value: bool;

fn at_once(kind: u32) -> u32 {
  return select(2u, 32u, kind == Q8_0);
}

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

fn store_word(at: u32, bits: u32) {
  if (is_value) { atomicStore(&values[at >> 2u], bits); } else { atomicStore(&keys[at >> 2u], bits); }
}

fn store_half(at: u32, bits: u32) {
  let shift = (at & 2u) * 8u;
  if (is_value) {
    atomicAnd(&values[at >> 2u], ~(0xffffu << shift));
    atomicOr(&values[at >> 2u], bits << shift);
  } else {
    atomicAnd(&keys[at >> 2u], ~(0xffffu << shift));
    atomicOr(&keys[at >> 2u], bits << shift);
  }
}

fn code(x: f32, inverse: f32) -> u32 {
  // Rounds to the nearest, ties away from zero.
  let scaled = x * inverse;
  let size = abs(scaled);
  let whole = floor(size);
  let q = whole + select(0.0, 1.0, size - whole >= 0.5);
  return bitcast<u32>(i32(select(q, -q, scaled < 0.0))) & 255u;
}

// Whether float16 can't hold the key of head `row` of all tokens' heads. Its value is then stored
// as NaN, which spoils every sum; a key that is NaN might be overlooked.
fn key_is_beyond(row: u32) -> bool {
  let unit = select(1.0, 127.0, K_TYPE == Q8_0);
  var beyond = false;
  for (var j = 0u; j < params.k.x && K_TYPE != F32; j++) {
    let bits = bitcast<u32>(key(row * params.k.x + j) / unit) & 0x7fffffffu;
    beyond = beyond || bits >= 0x477ff000u;
  }
  return beyond;
}

fn store_block(to: u32, i: u32) {
  var largest = 0.0;
  for (var j = 0u; j < 32u; j++) { largest = max(largest, abs(number(i + j))); }
  let d32 = largest / 127.0;
  let inverse = select(0.0, 1.0 / d32, d32 >= 1.1754944e-38);
  store_half(to, stored_half(d32));
  for (var j = 0u; j < 32u; j += 2u) {
    store_half(to + 2u + j, code(number(i + j), inverse) | (code(number(i + j + 1u), inverse) << 8u));
  }
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
  if (kind == F32) {
    store_word(at + 4u * d, bitcast<u32>(number(from_x)));
    store_word(at + 4u * d + 4u, bitcast<u32>(number(from_x + 1u)));
  } else if (kind == F16) {
    store_word(at + 2u * d, stored_halves(number(from_x), number(from_x + 1u)));
  } else {
    store_block(at + d / 32u * 34u, from_x);
  }
  if (is_value && d == 0u && key_is_beyond(t * params.n_heads + head)) {
    if (kind == F32) { store_word(at, 0x7fc00000u); } else { store_half(at, 0x7e00u); }
  }
}
