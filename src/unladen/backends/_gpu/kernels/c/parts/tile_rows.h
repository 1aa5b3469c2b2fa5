#if INT_DOT
#define ZERO_LATER
#end
#use tiles
#if INT_DOT
#bind in u32 x_codes
#bind in f2 x_scales
#else
#use columns
#end
// A workgroup of WG threads multiplies R = 16 rows, which are tiles, with NT rows of x. A subgroup
// of 32 threads takes TOGETHER chunks at a time and loads all their words before it uses any.
// Threads' sums are added in a fixed order. With INT_DOT, `quantize` rounded x to int8.
#define OUT (R * NT)
#if PLAIN
#define TOGETHER 2u
#else
#define TOGETHER (NT == 1u ? 4u : 2u)
#end
// Subgroups that multiply the same rows of w.
#ifndef TEAMS
#define TEAMS 1u
#endif
#define WARPS (WG / 32u / TEAMS)
// What a thread holds: the address of the first row, and the sums of one row, OWN_ROW. The last
// address of n rows is PER_ADDRESS rows before their end: a grid may have more groups than tiles.
#define ADDRESSES 1u
#define XS NT
#define X_ROW(i) (i)
#define PER_ADDRESS R
#define PARTIALS NT
#define OWN_ROW (LANE_G + LANE_T / 2u * 8u)
#shared float sums (WG / 2u * ALL_OUT / R)
#shared float totals ALL_OUT

#if INT_DOT
// Adds over the four threads of rows g and g + 8. sums[2 h + p] is of row g + 8 h and of pair p of
// columns. A thread gets the sum of row OWN_ROW and of pair t % 2.
FN int sum_of_four(PRIVATE const int *sums) {
  const bool second_row = LANE_T >= 2u, second_pair = LANE_T % 2u == 1u;
  int of_row[2];
  for (u32 p = 0u; p < 2u; p++) {
    of_row[p] = (second_row ? sums[2u + p] : sums[p])
                + shuffle_xor_int(second_row ? sums[p] : sums[2u + p], 2u);
  }
  return (second_pair ? of_row[1] : of_row[0])
         + shuffle_xor_int(second_pair ? of_row[0] : of_row[1], 1u);
}

// Products of this thread's words of a chunk with x, whose columns begin `more` after `at`.
// first[2 h + p] is that of pair p of row g + 8 h. Where both words of a pair have one scale,
// second is the sum of both; otherwise it is that of the pair's second word.
FN void chunk_sums(ARGS, PRIVATE const u32 *a, u32 at, u32 c, u32 more, PRIVATE int *first,
                   PRIVATE int *second) {
  for (u32 p = 0u; p < 2u; p++) {
    const u32 x0 = load_u32_from(x_codes, at, more + pair_column(c, p));
    const u32 x1 = load_u32_from(x_codes, at, more + pair_column(c, p) + 16u);
    const int zero1 = zero_sum(x1, 0), zero0 = zero_sum(x0, SCALED == 16u ? 0 : zero1);
    for (u32 h = 0u; h < 2u; h++) {
      const u32 i = 2u * h + p;
      first[i] = dot_i8(a[2u * i], x0, zero0);
      second[i] = dot_i8(a[2u * i + 1u], x1, SCALED == 16u ? zero1 : first[i]);
    }
  }
}

// partial[n] += n_chunks chunks of row OWN_ROW times x n. The first is chunk c of the tile.
FN void add_chunks(ARGS, Bytes b, u32 n_in, u32 tile, u32 c, u32 column, u32 n_chunks,
                   PRIVATE const u32 *xs, PRIVATE float *partial) {
  int first[4u * NT * TOGETHER], second[4u * NT * TOGETHER];
  f4 scale[TOGETHER];
  f2 scale_x[NT * TOGETHER];
  float shift[NT * TOGETHER];
  UNROLL for (u32 k = 0u; k < n_chunks; k++) {
    const u32 own = (c + k) % CHUNKS, tiles = (c + k) / CHUNKS, more = tiles * TILE_COLUMNS;
    u32 a[8];
    codes_after(args, b, tile, tiles * TILE_BYTES, own, a);
    scale[k] = pair_scales(args, b, tile + tiles * TILE_BYTES, OWN_ROW, own, LANE_T % 2u);
    UNROLL for (u32 n = 0u; n < NT; n++) {
      const u32 i = k * NT + n, at = xs[n] + column, runs = (more + pair_column(own, 0u)) / 16u;
      const u32 run = at / 16u + (pair_column(0u, 1u) - pair_column(0u, 0u)) / 16u * (LANE_T % 2u);
      chunk_sums(args, a, at + 4u * LANE_T, own, more, first + 4u * i, second + 4u * i);
      scale_x[i] = element_from(x_scales, run, runs);
      shift[i] = 0.0f;
      if (SHIFTED) {
        shift[i] = scale[k].y * scale_x[i].y
                   + scale[k].w * element_from(x_scales, run, runs + 1u).y;
      }
    }
  }
  UNROLL for (u32 k = 0u; k < n_chunks; k++) {
    UNROLL for (u32 n = 0u; n < NT; n++) {
      const u32 i = k * NT + n;
      float sum = scale[k].z * (float)sum_of_four(second + 4u * i);
      if (SCALED == 16u) sum += scale[k].x * (float)sum_of_four(first + 4u * i);
      partial[n] += scale_x[i].x * sum + shift[i];
    }
  }
}
#else
// own[n] += row g times x n, own[NT + n] += row g + 8.
#if PLAIN
FN void add_chunk(ARGS, Bytes b, u32 n_in, u32 tile, u32 c, u32 column, PRIVATE const u32 *xs,
                  PRIVATE float *own) {
  u4 q[4];
  for (u32 i = 0u; i < 4u; i++) q[i] = sixteen_columns(b, tile, 4u * c + i);
  for (u32 i = 0u; i < 4u; i++) {
    const f4 first = four(q[i].x, q[i].z), second = four(q[i].y, q[i].w);
    for (u32 n = 0u; n < NT; n++) {
      const f4 v = columns(args, n_in, xs[n], column + 64u * c + 16u * i + 4u * LANE_T);
      own[n] += f4_dot(first, v);
      own[NT + n] += f4_dot(second, v);
    }
  }
}
#else
FN void add_chunk(ARGS, Bytes b, u32 n_in, u32 tile, u32 c, u32 column, PRIVATE const u32 *xs,
                  PRIVATE float *own) {
  u32 a[8];
  chunk_codes(args, b, tile, c, a);
  for (u32 p = 0u; p < 2u; p++) {
    const u32 from = column + pair_column(c, p) + 4u * LANE_T;
    for (u32 n = 0u; n < NT; n++) {
      const f4 lo = columns(args, n_in, xs[n], from), hi = columns(args, n_in, xs[n], from + 16u);
      for (u32 h = 0u; h < 2u; h++) {
        const f4 scale = pair_scales(args, b, tile, LANE_G + 8u * h, c, p);
        const u32 at = 4u * h + 2u * p;
        float sum = scale.x * f4_dot(f4_signed(a[at]), lo)
                    + scale.z * f4_dot(f4_signed(a[at + 1u]), hi);
        if (SHIFTED) {
          sum += scale.y * f4_dot(lo, F4_ALL(1.0f)) + scale.w * f4_dot(hi, F4_ALL(1.0f));
        }
        own[h * NT + n] += sum;
      }
    }
  }
}
#end

FN void add_chunks(ARGS, Bytes b, u32 n_in, u32 tile, u32 c, u32 column, u32 n_chunks,
                   PRIVATE const u32 *xs, PRIVATE float *own) {
  UNROLL for (u32 k = 0u; k < n_chunks; k++) {
    const u32 after = (c + k) / CHUNKS;
    add_chunk(args, b, n_in, tile + after * TILE_BYTES, (c + k) % CHUNKS,
              column + after * TILE_COLUMNS, xs, own);
  }
}
#end

// partial[n] += row OWN_ROW times x n, or a thread's part of that; rows begin at byte rows[0] of b.
FN void accumulate(ARGS, Bytes b, u32 n_in, PRIVATE const u32 *rows, PRIVATE const u32 *xs,
                   PRIVATE float *partial) {
#if INT_DOT
  PRIVATE float *own = partial;
#else
  float own[2u * NT];
  for (u32 n = 0u; n < 2u * NT; n++) own[n] = 0.0f;
#end
  const u32 n_chunks = n_in / 64u, n_whole = n_chunks / TOGETHER * TOGETHER;
  const u32 warp = TEAMS == 1u ? SUBGROUP : SUBGROUP % WARPS;
  for (u32 each = TOGETHER * warp; each < n_whole; each += TOGETHER * WARPS) {
    const u32 c = CHUNKS > TOGETHER ? each % CHUNKS : 0u, i = each / CHUNKS;
    add_chunks(args, b, n_in, rows[0] + i * TILE_BYTES, c, i * TILE_COLUMNS, TOGETHER, xs, own);
  }
  if (CHUNKS % TOGETHER != 0u) {
    for (u32 each = n_whole + warp; each < n_chunks; each += WARPS) {
      add_chunks(args, b, n_in, rows[0] + each / CHUNKS * TILE_BYTES, each % CHUNKS,
                 each / CHUNKS * TILE_COLUMNS, 1u, xs, own);
    }
  }
#if INT_DOT
#else
  const bool second = LANE_T >= 2u;
  for (u32 n = 0u; n < NT; n++) {
    const float mine = second ? own[NT + n] : own[n], other = second ? own[n] : own[NT + n];
    partial[n] += mine + shuffle_xor(other, 2u);
  }
#end
}

// Leaves the sums over all threads in `totals`, for every thread to read.
FN void finish(ARGS, PRIVATE const float *partial) {
  for (u32 o = 0u; o < ALL_OUT / R; o++) {
    const float both = partial[o] + shuffle_xor(partial[o], 1u);
    if (LANE_T % 2u == 0u) sums[(o * (WG / 32u) + SUBGROUP) * R + OWN_ROW] = both;
  }
  BARRIER();
  NO_UNROLL for (u32 o = LANE; o < ALL_OUT; o += WG) {
    const u32 row = o % OUT / NT, n = o / OUT * NT + o % NT;
    float total = 0.0f;
    for (u32 s = 0u; s < WG / 32u; s++) total += sums[(n * (WG / 32u) + s) * R + row];
    totals[o] = total;
  }
  BARRIER();
}
