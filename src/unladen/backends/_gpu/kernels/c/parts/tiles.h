#use matrix
// Weights in tiles of 16 rows: see quants/_tiles.py of the package. Thread 4 g + t of a subgroup of
// 32 threads has words of rows g and g + 8. A chunk has 64 columns: for formats with codes two
// pairs of 16 columns each, of which a thread has four neighbours.
#define CHUNKS (TILE_COLUMNS / 64u)
#define LANE_G (IN_SUBGROUP / 4u)
#define LANE_T (IN_SUBGROUP % 4u)

#if PLAIN
// 16 bytes: rows g and g + 8 of columns 4 t and 4 t + 1, then of the next two columns, of 16
// columns.
FN u4 sixteen_columns(Bytes b, u32 tile, u32 i) {
  return load_u128_from(b, tile + 16u * IN_SUBGROUP, 512u * i);
}

// Unit `unit` of a tile's row, eight weights.
FN Codes tile_unit(ARGS, Bytes b, u32 tile, u32 row, u32 unit) {
  const u32 at = tile + 512u * (unit / 2u) + 64u * (row % 8u) + 4u * (row / 8u);
  const u32 first = 32u * (unit % 2u);
  Codes c;
  c.lo = four(load_u32(b, at + first), load_u32(b, at + first + 8u));
  c.hi = four(load_u32(b, at + first + 16u), load_u32(b, at + first + 24u));
  return c;
}
#else
#ifndef LOW_AT
#define LOW_AT(c) (512u * (c))
#define LOW_SHIFT(c) 0u
#endif
#ifndef SCALED
#define SCALED 32u
#endif
// Units of eight weights in a block.
#define UNITS (BLOCK / 8u)

// Where `scales` finds the block's bytes.
FN u32 aside_of(u32 tile, u32 row, u32 block) {
  return tile + ASIDE_AT + (16u * block + row) * ASIDE_BYTES - ASIDE_FIRST;
}

// The scale and the shift of the first 16 columns of pair p of chunk c, then those of the second.
FN f4 pair_scales(ARGS, Bytes b, u32 tile, u32 row, u32 c, u32 p) {
#ifdef PAIR_SCALES
  return scales_of_pair(args, b, aside_of(tile, row, 8u * c / UNITS), 8u * c % UNITS / 8u, p);
#endif
#ifndef PAIR_SCALES
  if (SPAN == 16u) {
    const u32 unit = 8u * c + 4u * p;
    return scales(args, b, aside_of(tile, row, unit / UNITS), unit % UNITS);
  }
  const u32 unit = 8u * c;
  const u32 at = aside_of(tile, row, unit / UNITS);
  const f4 first = scales(args, b, at, unit % UNITS);
  const f4 second = SCALED == 16u ? scales(args, b, at, unit % UNITS + 4u) : first;
  return p == 0u ? F4(first.x, first.y, second.x, second.y)
                 : F4(first.z, first.w, second.z, second.w);
#endif
}

#ifdef ROW_WORDS
// What a row's scales of chunk c are made of, by `scales_of_words`.
FN void row_words_of(Bytes b, u32 tile, u32 row, u32 c, PRIVATE u32 *out) {
  row_words(b, aside_of(tile, row, 8u * c / UNITS), 8u * c % UNITS / 8u, out);
}
#endif

// The first column of pair p of chunk c, counted in the tile.
FN u32 pair_column(u32 c, u32 p) {
  const u32 unit = 8u * c;
  return unit / UNITS * BLOCK + unit_at(unit % UNITS) + (SPAN == 16u ? 32u : SPAN) * p;
}

FN u4 shifted(u4 words, u32 n) { return words >> n; }

// What codes of chunk c of the tile `more` bytes after `tile` are made of, as this thread loads it.
FN void words_after(Bytes b, u32 tile, u32 more, u32 c, PRIVATE u4 *words) {
  const u32 at = tile + 16u * IN_SUBGROUP;
#ifdef WHOLE_BYTES
  words[0] = load_u128_from(b, at, more + 1024u * c);
  words[1] = load_u128_from(b, at, more + 1024u * c + 512u);
#endif
#ifndef WHOLE_BYTES
  words[0] = load_u128_from(b, at, more + LOW_AT(c));
#ifdef HIGH_AT
  words[1] = load_u128_from(b, at, more + PLANE1_AT + HIGH_AT(c));
#endif
#endif
}

// This thread's codes of chunk c of the tile `more` bytes after `tile`, four in a word, of `words`:
// out[2 p + h] is the word of row g, pair p and its half h, out[4 + 2 p + h] that of row g + 8.
FN void codes_of(ARGS, PRIVATE const u4 *words, Bytes b, u32 tile, u32 more, u32 c,
                 PRIVATE u32 *out) {
#ifdef WHOLE_BYTES
  for (u32 p = 0u; p < 2u; p++) {
    out[2u * p] = words[p].x;
    out[2u * p + 1u] = words[p].z;
    out[4u + 2u * p] = words[p].y;
    out[5u + 2u * p] = words[p].w;
  }
#endif
#ifndef WHOLE_BYTES
  const u4 low = shifted(words[0], LOW_SHIFT(c));
  u4 high = U4(0u, 0u, 0u, 0u);
#ifdef HIGH_AT
  high = shifted(words[1], HIGH_SHIFT(c));
#endif
#ifdef HIGH_ASIDE
  const u32 from = tile + more;
  high = U4(high_bits(b, aside_of(from, LANE_G, 2u * c), LANE_T),
            high_bits(b, aside_of(from, LANE_G + 8u, 2u * c), LANE_T),
            high_bits(b, aside_of(from, LANE_G, 2u * c + 1u), LANE_T),
            high_bits(b, aside_of(from, LANE_G + 8u, 2u * c + 1u), LANE_T));
#endif
  const u2 first = word_codes(low.x, high.x), second = word_codes(low.z, high.z);
  const u2 first8 = word_codes(low.y, high.y), second8 = word_codes(low.w, high.w);
  out[0] = first.x;
  out[1] = SPAN == 16u ? first.y : second.x;
  out[2] = SPAN == 16u ? second.x : first.y;
  out[3] = second.y;
  out[4] = first8.x;
  out[5] = SPAN == 16u ? first8.y : second8.x;
  out[6] = SPAN == 16u ? second8.x : first8.y;
  out[7] = second8.y;
#endif
}

FN void codes_after(ARGS, Bytes b, u32 tile, u32 more, u32 c, PRIVATE u32 *out) {
  u4 words[2];
  words_after(b, tile, more, c, words);
  codes_of(args, words, b, tile, more, c, out);
}

FN void chunk_codes(ARGS, Bytes b, u32 tile, u32 c, PRIVATE u32 *out) {
  codes_after(args, b, tile, 0u, c, out);
}

// Unit `unit` of a tile's row, eight weights before scaling.
FN Codes tile_unit(ARGS, Bytes b, u32 tile, u32 row, u32 unit) {
  const u32 at = tile + 64u * (row % 8u) + 4u * (row / 8u) + 16u * (unit % 4u);
  u2 words;
#ifdef WHOLE_BYTES
  words = U2(load_u32(b, at + 512u * (unit / 4u)), load_u32(b, at + 512u * (unit / 4u) + 8u));
#endif
#ifndef WHOLE_BYTES
  const u32 c = unit / 8u, from = at + unit % 8u / 4u * 8u;
  u32 high = 0u;
#ifdef HIGH_AT
  high = load_u32(b, from + PLANE1_AT + HIGH_AT(c)) >> HIGH_SHIFT(c);
#endif
#ifdef HIGH_ASIDE
  high = high_bits(b, aside_of(tile, row, unit / UNITS), unit % UNITS);
#endif
  words = word_codes(load_u32(b, from + LOW_AT(c)) >> LOW_SHIFT(c), high);
#endif
  Codes out;
  out.lo = f4_signed(words.x);
  out.hi = f4_signed(words.y);
  return out;
}
#end
