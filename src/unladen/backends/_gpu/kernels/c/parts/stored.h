// Where and how rows of keys and of values are stored in the cache, [block][head][slot][row]. A
// number too large for float16 is stored as NaN, never as infinity: an infinite key can get the
// weight zero and go unnoticed, while NaN reaches the logits and becomes an error.

#define F32 0u
#define F16 1u
#define Q8_0 2u

// The row of a token and a head.
FN u32 cache_slot(ARGS, u32 t, u32 head, u32 n_heads, u32 block_tokens) {
  const u32 p = (u32)batch(args, INDEX, t);
  const u32 seq = (u32)batch(args, SEQ_OF, t);
  const u32 block = cache_block(args, seq, FIRST_COLUMN, p, block_tokens);
  return (block * n_heads + head) * block_tokens + p % block_tokens;
}

FN u32 stored_half(float x) {
  const u32 bits = f32_to_f16(x);
  return (bits & 0x7fffu) >= 0x7c00u ? 0x7e00u : bits;
}

// Two numbers in a word, the first in the low half.
FN u32 stored_halves(float low, float high) {
  return stored_half(low) | (stored_half(high) << 16);
}
