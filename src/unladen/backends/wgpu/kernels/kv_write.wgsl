#use step f16
// Rows of `dim` numbers into the cache, [block][head][slot][row]. A thread stores two numbers, or
// with Q8_0 a block of 32; rows of Q8_0 may share a word with their neighbours, so its halves are
// changed one by one.
struct Params {
  n_heads: u32,
  dim: u32,
  row_bytes: u32,
  block_tokens: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
#if Q8_0
@group(1) @binding(2) var<storage, read_write> cache: array<atomic<u32>>;
const STEP = 32u;

fn store_half(at: u32, bits: u32) {
  let shift = (at & 2u) * 8u;
  atomicAnd(&cache[at >> 2u], ~(0xffffu << shift));
  atomicOr(&cache[at >> 2u], bits << shift);
}

fn code(x: f32, inverse: f32) -> u32 {
  // Nearest, ties away from zero.
  let scaled = x * inverse;
  let size = abs(scaled);
  let whole = floor(size);
  let q = whole + select(0.0, 1.0, size - whole >= 0.5);
  return bitcast<u32>(i32(select(q, -q, scaled < 0.0))) & 255u;
}
#else
@group(1) @binding(2) var<storage, read_write> cache: array<u32>;
const STEP = 2u;
#end

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let per_row = params.dim / STEP;
  let i = (id.x + id.y * groups.x) * 64u + lane;
  let head = i / per_row % params.n_heads;
  let t = i / per_row / params.n_heads;
  if (t >= n_rows(N_TOKENS)) { return; }
  let d = i % per_row * STEP;
  let p = u32(batch(POSITIONS, t));
  let block = cache_block(u32(batch(SEQ_OF, t)), p, params.block_tokens);
  let slot = (block * params.n_heads + head) * params.block_tokens + p % params.block_tokens;
  let from_x = (t * params.n_heads + head) * params.dim + d;
  let at = slot * params.row_bytes;
#if F32
  cache[(at >> 2u) + d] = bitcast<u32>(x[from_x]);
  cache[(at >> 2u) + d + 1u] = bitcast<u32>(x[from_x + 1u]);
#end
#if F16
  cache[(at + 2u * d) >> 2u] = f16_bits(x[from_x]) | (f16_bits(x[from_x + 1u]) << 16u);
#end
#if Q8_0
  var largest = 0.0;
  for (var k = 0u; k < 32u; k++) { largest = max(largest, abs(x[from_x + k])); }
  let d32 = largest / 127.0;
  let inverse = select(0.0, 1.0 / d32, d32 >= 1.1754944e-38);
  let to = at + d / 32u * 34u;
  store_half(to, f16_bits(d32));
  for (var k = 0u; k < 32u; k += 2u) {
    store_half(to + 2u + k, code(x[from_x + k], inverse) | (code(x[from_x + k + 1u], inverse) << 8u));
  }
#end
}
