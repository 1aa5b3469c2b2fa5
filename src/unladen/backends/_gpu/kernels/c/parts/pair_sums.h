// Products of sixteen rows of a chunk with eight rows of x rounded to int8, by the matrix units of
// NVIDIA's chips (sm_80 and later).

// Those of pair p: `a` has the words that chunk_codes gives, `x` those of each run of 16 columns. A
// thread gets rows g and g + 8 of w with rows 2 t and 2 t + 1 of x as mma_i8 leaves them: `sum` is
// of the first 16 columns, `rest` of the second ones, where these have a scale of their own.
FN void pair_sums(u32 p, PRIVATE const u32 *a, PRIVATE const u32 *x, PRIVATE int *sum,
                  PRIVATE int *rest) {
  UNROLL for (u32 i = 0u; i < 4u; i++) sum[i] = rest[i] = 0;
  const u32 own[4] = {a[2u * p], a[4u + 2u * p], a[2u * p + 1u], a[5u + 2u * p]};
#ifdef ZERO_LATER
  if (ZERO > 0u) {
    const u32 zero = (256u - ZERO) * 0x01010101u, zeros[4] = {zero, zero, zero, zero};
    if (SCALED == 16u) {
      mma_i8_half(sum, zeros, x + 2u * p);
      mma_i8_half(rest, zeros, x + 2u * p + 1u);
    } else {
      mma_i8(sum, zeros, x + 2u * p);
    }
  }
#endif
  if (SCALED == 16u) {
    mma_i8_half(sum, own, x + 2u * p);
    mma_i8_half(rest, own + 2, x + 2u * p + 1u);
  } else {
    mma_i8(sum, own, x + 2u * p);
  }
}

// A pair's products with their scales: `scale` is of a row and its pair, `x` has the scale and the
// sum of the first 16 columns of a row of x, then of the second.
FN float scaled(f4 scale, u4 x, int first, int second) {
  const float factor = as_f32(x.x);
  float value = SCALED == 16u ? factor * (scale.x * (float)first + scale.z * (float)second)
                              : factor * scale.x * (float)first;
  if (SHIFTED) value += scale.y * as_f32(x.y) + scale.w * as_f32(x.w);
  return value;
}
