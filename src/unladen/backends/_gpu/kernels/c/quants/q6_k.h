// 0: 128 weights in 64 bytes, byte j holds the low nibbles of q[j], q[j + 64]; 128: 128 weights in
// 32 bytes, byte j holds the high 2 bits of q[j], q[j + 32], ...; 192: scale int8; 208: d float16.
#define SPAN 64u
#define GROUP 4u
#define SHIFTED 0
#define ZERO 32u
// In tiles: columns with a scale, and where a chunk's high bits are.
#define SCALED 16u
#define HIGH_AT(c) (512u * ((c) / 2u))
#define HIGH_SHIFT(c) (2u * ((c) % 2u))

#use packed

FN u32 unit_at(u32 u) { return 128u * (u / 16u) + 4u * (u % 16u); }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 run = at + 192u + 8u * (u / 16u) + (u % 16u) / 4u;
  const float d = half_at(b, at + 208u);
  return F4(d * (float)i8_of(byte_at(b, run)), 0.0f, d * (float)i8_of(byte_at(b, run + 4u)), 0.0f);
}

FN u2 word_codes(u32 low, u32 high) {
  return U2(less_zero((low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4)),
            less_zero(((low >> 4) & 0x0f0f0f0fu) | (high & 0x30303030u)));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  const u32 top = word_at(b, at + 128u + 32u * (u / 16u) + 4u * (u % 8u));
  return word_codes(word_at(b, at + 64u * (u / 16u) + 4u * (u % 16u)),
                    top >> (2u * ((u / 8u) % 2u)));
}

FN void packed_group(ARGS, Bytes b, u32 at, u32 first, PRIVATE u2 *out) {
  const u4 low = words_at(b, at + 64u * (first / 16u) + 4u * (first % 16u));
  const u4 top = words_at(b, at + 128u + 32u * (first / 16u) + 4u * (first % 8u))
                 >> (2u * ((first / 8u) % 2u));
  store_group(minus_each4((low & 0x0f0f0f0fu) | ((top & 0x03030303u) << 4u), 0x20202020u),
              minus_each4(((low >> 4u) & 0x0f0f0f0fu) | (top & 0x30303030u), 0x20202020u), out);
}

#if TILED
#define PAIR_SCALES

// As `pair_scales` gives them, for chunk c of the block at byte `at`.
FN f4 scales_of_pair(ARGS, Bytes b, u32 at, u32 c, u32 p) {
  const u32 both = half_bits(b, at + 192u + 8u * (c / 2u) + 2u * (c % 2u) + 4u * p);
  const float d = half_at(b, at + 208u);
  return F4(d * (float)i8_of(both & 255u), 0.0f, d * (float)i8_of(both >> 8), 0.0f);
}

#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 3u
#define STEPS 1

// What the scales of chunk c of the block at byte `at` are made of.
FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  const u32 from = at + 192u + 8u * (c / 2u) + 2u * (c % 2u);
  out[0] = half_bits(b, from);
  out[1] = half_bits(b, from + 4u);
  out[2] = half_bits(b, at + 208u);
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  const u32 steps = whole_halves(words[p] ^ 0x8080u, 128u, false);
  out[0] = low_twice(words[2]);
  out[1] = low_twice(steps);
  out[2] = high_twice(steps);
}
#end
#end
