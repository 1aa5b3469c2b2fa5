#use f16
// Where and how rows of keys and of values are stored in the cache, [block][head][slot][row]. A
// number too large for float16 is stored as NaN, never as infinity: an infinite key can get the
// weight zero and go unnoticed, while NaN reaches the logits and becomes an error.

const F32 = 0u;
const F16 = 1u;
const Q8_0 = 2u;

// The row of a token and a head.
fn cache_slot(t: u32, head: u32, n_heads: u32, block_tokens: u32) -> u32 {
  let p = u32(batch(INDEX, t));
  let block = cache_block(u32(batch(SEQ_OF, t)), FIRST_COLUMN, p, block_tokens);
  return (block * n_heads + head) * block_tokens + p % block_tokens;
}

fn stored_half(x: f32) -> u32 {
  let bits = f16_bits(x);
  return select(bits, 0x7e00u, (bits & 0x7fffu) == 0x7c00u);
}

// Two numbers in a word, the first in the low half.
fn stored_halves(low: f32, high: f32) -> u32 {
  return stored_half(low) | (stored_half(high) << 16u);
}
