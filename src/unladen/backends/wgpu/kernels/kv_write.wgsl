#use step f16
// Stores rows of keys and of values in the cache, [block][head][slot][row]. A thread stores two
// numbers, or a block of 32 in Q8_0. Rows of Q8_0 may share a word with their neighbours, so halves
// of words are changed one by one. A number too large for float16 is stored as NaN, never as
// infinity: an infinite key can get the weight zero and go unnoticed, while NaN reaches the logits
// and becomes an error.
struct Params {
  n_heads: u32,
  block_tokens: u32,
  // How many numbers a row has, and how many bytes it takes in the cache.
  k: vec2u,
  v: vec2u,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> k: array<f32>;
@group(1) @binding(2) var<storage, read_write> v: array<f32>;
@group(1) @binding(3) var<storage, read_write> keys: array<atomic<u32>>;
@group(1) @binding(4) var<storage, read_write> values: array<atomic<u32>>;

const F32 = 0u;
const F16 = 1u;
const Q8_0 = 2u;
var<private> is_value: bool;

fn at_once(kind: u32) -> u32 {
  return select(2u, 32u, kind == Q8_0);
}

fn number(i: u32) -> f32 {
  if (is_value) { return v[i]; }
  return k[i];
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

fn stored_half(x: f32) -> u32 {
  let bits = f16_bits(x);
  return select(bits, 0x7e00u, (bits & 0x7fffu) == 0x7c00u);
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
    let bits = bitcast<u32>(k[row * params.k.x + j] / unit) & 0x7fffffffu;
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
  let n_rows_of_heads = n_rows(N_TOKENS) * params.n_heads;
  var i = (id.x + id.y * groups.x) * WG + lane;
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
  let p = u32(batch(INDEX, t));
  let block = cache_block(u32(batch(SEQ_OF, t)), FIRST_COLUMN, p, params.block_tokens);
  let slot = (block * params.n_heads + head) * params.block_tokens + p % params.block_tokens;
  let from_x = (t * params.n_heads + head) * rows.x + d;
  let at = slot * rows.y;
  if (kind == F32) {
    store_word(at + 4u * d, bitcast<u32>(number(from_x)));
    store_word(at + 4u * d + 4u, bitcast<u32>(number(from_x + 1u)));
  } else if (kind == F16) {
    store_word(at + 2u * d,
               stored_half(number(from_x)) | (stored_half(number(from_x + 1u)) << 16u));
  } else {
    store_block(at + d / 32u * 34u, from_x);
  }
  if (is_value && d == 0u && key_is_beyond(t * params.n_heads + head)) {
    if (kind == F32) { store_word(at, 0x7fc00000u); } else { store_half(at, 0x7e00u); }
  }
}
