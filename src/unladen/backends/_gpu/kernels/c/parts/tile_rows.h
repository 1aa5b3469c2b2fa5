#use tiles
#if INT_DOT
#bind in u32 x_codes
#bind in f2 x_scales
#else
#use columns
#end
// A workgroup of WG threads multiplies R = 16 rows, which are tiles, with NT rows of x. A subgroup
// of 32 threads takes every N_SUBGROUPS-th chunk; threads' sums are added in a fixed order. With
// INT_DOT, `quantize` rounded x to int8.
#define OUT (R * NT)
// What a thread holds: the address of the first row, and the sums of rows g and g + 8.
#define ADDRESSES 1u
#define PARTIALS (2u * NT)
#shared float sums (WG * ALL_OUT / 8u)
#shared float totals ALL_OUT

#if PLAIN
FN void add_chunk(ARGS, Bytes b, u32 n_in, u32 tile, u32 c, u32 column, PRIVATE const u32 *xs,
                  PRIVATE float *partial) {
  for (u32 i = 0u; i < 4u; i++) {
    const u4 q = sixteen_columns(b, tile, 4u * c + i);
    const f4 own = four(q.x, q.z), next = four(q.y, q.w);
    for (u32 n = 0u; n < NT; n++) {
      const f4 v = columns(args, n_in, xs[n], column + 64u * c + 16u * i + 4u * LANE_T);
      partial[n] += f4_dot(own, v);
      partial[NT + n] += f4_dot(next, v);
    }
  }
}
#else
// Adds pair p of 32 columns from `column` on: `a` has the words of a row, `scale` its scales.
#if INT_DOT
FN void add_pair(ARGS, u32 n_in, u32 column, f4 scale, PRIVATE const u32 *a,
                 PRIVATE const u32 *xs, PRIVATE float *partial) {
  for (u32 n = 0u; n < NT; n++) {
    const u32 at = xs[n] + column;
    const f2 first = x_scales[at / 16u], second = x_scales[at / 16u + 1u];
    const int lo = dot_i8(a[0], load_u32(x_codes, at + 4u * LANE_T), 0);
    const int hi = dot_i8(a[1], load_u32(x_codes, at + 4u * LANE_T + 16u), 0);
    if (SCALED == 16u) {
      partial[n] += first.x * (scale.x * (float)lo + scale.z * (float)hi);
    } else {
      partial[n] += first.x * scale.x * (float)(lo + hi);
    }
    if (SHIFTED && LANE_T == 0u) partial[n] += scale.y * first.y + scale.w * second.y;
  }
}
#else
FN void add_pair(ARGS, u32 n_in, u32 column, f4 scale, PRIVATE const u32 *a,
                 PRIVATE const u32 *xs, PRIVATE float *partial) {
  for (u32 n = 0u; n < NT; n++) {
    const f4 lo = columns(args, n_in, xs[n], column + 4u * LANE_T);
    const f4 hi = columns(args, n_in, xs[n], column + 4u * LANE_T + 16u);
    partial[n] += scale.x * f4_dot(f4_signed(a[0]), lo) + scale.z * f4_dot(f4_signed(a[1]), hi);
    if (SHIFTED) {
      partial[n] += scale.y * f4_dot(lo, F4_ALL(1.0f)) + scale.w * f4_dot(hi, F4_ALL(1.0f));
    }
  }
}
#end

FN void add_chunk(ARGS, Bytes b, u32 n_in, u32 tile, u32 c, u32 column, PRIVATE const u32 *xs,
                  PRIVATE float *partial) {
  u32 a[8];
  chunk_codes(args, b, tile, c, a);
  for (u32 p = 0u; p < 2u; p++) {
    const u32 from = column + pair_column(c, p);
    const f4 scale = pair_scales(args, b, tile, LANE_G, c, p);
    add_pair(args, n_in, from, scale, a + 2u * p, xs, partial);
    const f4 next = pair_scales(args, b, tile, LANE_G + 8u, c, p);
    add_pair(args, n_in, from, next, a + 4u + 2u * p, xs, partial + NT);
  }
}
#end

// partial[n] += row g times x n, partial[NT + n] += row g + 8; rows begin at byte rows[0] of b.
FN void accumulate(ARGS, Bytes b, u32 n_in, PRIVATE const u32 *rows, PRIVATE const u32 *xs,
                   PRIVATE float *partial) {
  for (u32 each = SUBGROUP; each < n_in / 64u; each += WG / 32u) {
    const u32 i = each / CHUNKS, tile = rows[0] + i * TILE_BYTES;
    add_chunk(args, b, n_in, tile, each % CHUNKS, i * TILE_COLUMNS, xs, partial);
  }
}

// Leaves the sums over all threads in `totals`, for every thread to read.
FN void finish(ARGS, PRIVATE const float *partial) {
  for (u32 o = 0u; o < ALL_OUT / 8u; o++) sums[o * WG + LANE] = partial[o];
  BARRIER();
  for (u32 o = LANE; o < ALL_OUT; o += WG) {
    const u32 row = o % OUT / NT;
    const u32 from = (o / OUT * PARTIALS + row / 8u * NT + o % NT) * WG + row % 8u * 4u;
    float total = 0.0f;
    for (u32 s = 0u; s < WG / 32u; s++) {
      for (u32 k = 0u; k < 4u; k++) total += sums[from + 32u * s + k];
    }
    totals[o] = total;
  }
  BARRIER();
}
