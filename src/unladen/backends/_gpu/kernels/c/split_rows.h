#use step columns sum
// Makes of each row of x a sum of PARTS rows of 16 bits: float16, or bfloat16 with BRAIN. What a
// part leaves is the next one's, so that all of them have as many digits as float32. Rows of
// float16 are multiplied with a power of two first, since they have few exponents. Columns 4 t to 4
// t + 3 of 16 are words t and t + 4, which is where a matrix unit's thread t finds its columns. The
// step has n_each such rows for each of its own. For NVIDIA only.
//
// With COLUMNS, PADDED rows are together, in the order of bulk copies: their first 16 columns, then
// the next ones, part by part. In 16 columns, eight rows are together: eight columns of each, then
// the other eight. What is in rows that the step hasn't is never used.
typedef struct {
  u32 n_in, n_each;
} Matrix;

#bind struct Matrix m
#bind out u4 parts
#if BRAIN
FN u32 word_of(float low, float high) { return brains_of(low, high); }
FN f2 numbers_of(u32 word) { return F2(as_f32(word << 16), as_f32(word & 0xffff0000u)); }
#else
#bind out float factors
FN u32 word_of(float low, float high) { return halves_of(low, high); }
FN f2 numbers_of(u32 word) { return f2_halves(word); }
#end

// Words of the first and the last two columns; leaves what they don't have.
FN u2 take(PRIVATE f4 *v) {
  const u2 words = U2(word_of(v->x, v->y), word_of(v->z, v->w));
  const f2 low = numbers_of(words.x), high = numbers_of(words.y);
  *v = *v - F4(low.x, low.y, high.x, high.y);
  return words;
}

KERNEL(split_rows) {
  const u32 row = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (row >= n_rows(args, ROW_KIND) * m.n_each) return;
  float scale = 1.0f;
#if BRAIN
#else
  float largest = 0.0f;
  for (u32 i = LANE; i < m.n_in / 4u; i += WG) {
    largest = max_f32(largest, f4_largest(f4_abs(columns(args, m.n_in, row * m.n_in, 4u * i))));
  }
  // The exponent of the largest number becomes 14.
  const u32 exponent = max_u32(as_u32(max_all(args, largest)) >> 23, 15u);
  scale = as_f32((268u - exponent) << 23);
  if (LANE == 0u) factors[row] = as_f32((exponent - 14u) << 23);
#end
  for (u32 i = LANE; i < m.n_in / 16u; i += WG) {
    f4 v[4];
    for (u32 k = 0u; k < 4u; k++) {
      v[k] = columns(args, m.n_in, row * m.n_in, 16u * i + 4u * k) * scale;
    }
    for (u32 part = 0u; part < PARTS; part++) {
      const u2 a = take(&v[0]), b = take(&v[1]), c = take(&v[2]), d = take(&v[3]);
#if COLUMNS
      const u32 run = (row / PADDED * PARTS + part) * (m.n_in / 16u) + i;
      const u32 apart = 8u, at = 2u * (PADDED * run + row % PADDED / 8u * 8u) + row % 8u;
#else
      const u32 apart = 1u, at = ((row * PARTS + part) * m.n_in + 16u * i) / 8u;
#end
      parts[at] = U4(a.x, b.x, c.x, d.x);
      parts[at + apart] = U4(a.y, b.y, c.y, d.y);
    }
  }
}
