// Bytes of a weight. Blocks of an even number of bytes begin at even addresses. ALIGNED says that
// they begin at whole words, QUADS at sixteen bytes.

// Eight weights of a block before scaling: four from position unit_at(u) on, and the four that are
// SPAN further.
typedef struct {
  f4 lo, hi;
} Codes;

FN u32 byte_at(Bytes b, u32 at) { return load_u8(b, at); }

// Two bytes at an even address.
FN u32 half_bits(Bytes b, u32 at) { return load_u16(b, at); }

// The float16 at an even address.
FN float half_at(Bytes b, u32 at) { return f16_to_f32(load_u16(b, at)); }

// Four bytes from the address `at` on.
FN u32 word_at(Bytes b, u32 at) {
#if ALIGNED
  return load_u32(b, at);
#else
  if (BLOCK_BYTES % 2u == 0u) return load_u16(b, at) | (load_u16(b, at + 2u) << 16);
  return load_u8(b, at) | (load_u8(b, at + 1u) << 8) | (load_u8(b, at + 2u) << 16)
         | (load_u8(b, at + 3u) << 24);
#end
}

// Sixteen bytes from the address `at` on.
FN u4 words_at(Bytes b, u32 at) {
#if QUADS
  return load_u128(b, at);
#else
  return U4(word_at(b, at), word_at(b, at + 4u), word_at(b, at + 8u), word_at(b, at + 12u));
#end
}

// Bit k, k + 1, k + 2 and k + 3 of `bits` as numbers.
FN f4 four_bits(u32 bits, u32 k) {
  return F4((float)((bits >> k) & 1u), (float)((bits >> (k + 1u)) & 1u),
            (float)((bits >> (k + 2u)) & 1u), (float)((bits >> (k + 3u)) & 1u));
}
