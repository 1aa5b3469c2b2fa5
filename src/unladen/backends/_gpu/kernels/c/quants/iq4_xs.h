// 0: d float16; 2: high 2 bits of each scale; 4: low 4 bits of scale, low nibble first; 8: 32
// weights in 16 bytes, byte j holds q[j] low, q[j + 16] high, of 16 uneven levels.
FN u32 level_word(u32 i) {
  return i < 2u ? (i == 0u ? 0xbfad9881u : 0xf6eaddcfu) : (i == 2u ? 0x26190d01u : 0x71594535u);
}

#define SPAN 16u
#define GROUP 4u
#define SHIFTED 0

#use packed packed_each levels

FN u32 unit_at(u32 u) { return 32u * (u / 4u) + 4u * (u % 4u); }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 run = u / 4u;
  const u32 low = (word_at(b, at + 4u) >> (4u * run)) & 15u;
  const u32 high = (half_bits(b, at + 2u) >> (2u * run)) & 3u;
  const float s = half_at(b, at) * ((float)(low | (high << 4)) - 32.0f);
  return F4(s, 0.0f, s, 0.0f);
}

#if TILED
#if WGMMA
#use halves
// Scales as float16 for fragments.h.
#define HALF_SCALES
#define ROW_WORDS 2u
#define STEPS 1

FN void row_words(Bytes b, u32 at, u32 c, PRIVATE u32 *out) {
  out[0] = word_at(b, at);
  out[1] = word_at(b, at + 4u);
}

FN void half_scales(PRIVATE const u32 *words, u32 c, u32 p, PRIVATE u32 *out) {
  const u32 run = 2u * c + p;
  const u32 step = ((words[1] >> (4u * run)) & 15u) | (((words[0] >> (16u + 2u * run)) & 3u) << 4);
  out[0] = low_twice(words[0]);
  out[1] = out[2] = low_twice(whole_halves(step, 32u, false));
}
#end
#end

FN u2 word_codes(u32 low, u32 high) {
  return two_levels(low);
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  return word_codes(word_at(b, at + 8u + 4u * u), 0u);
}
