#use tiles
// Products of BANDS bands of 16 rows of w, which are tiles, with NT rows of x, by the matrix units
// of NVIDIA's chips (sm_80 and later). The warps of a workgroup share the columns: warp s takes
// tiles s, s + WARPS, ... of every band, in turns of a chunk. Weights go from memory to registers,
// since tiles have the order of fragments; with EARLY they are loaded a turn ahead. Rows of x come
// through shared memory, STAGES - 1 turns ahead. Each warp copies what it multiplies itself, so
// warps don't wait for one another until the end.
//
// x_tile has elements of sixteen bytes of a row of x: a run of 16 columns with INT_DOT, where x was
// rounded to int8 with a scale for 32 columns (`quantize`), and otherwise 8 columns of one of the
// PARTS of x (`split_rows`). The order of rows differs from element to element, so that no two of
// eight that are read or written at once share a bank.
#define WARPS (WG / 32u)
#define GROUPS_OF_X (NT / 8u)
// The turns of a round: after so many the number of the chunk and the place of x in shared memory
// are the same again.
#define ROUND (CHUNKS > STAGES ? CHUNKS : STAGES)
#if INT_DOT
#define ELEMENTS 4u
#define AT_ONCE 4u
#bind in u32 x_codes
#bind in u32 x_scales
// For each pair of 16 columns: the scale and the sum of the first, then of the second.
#shared u4 x_scale (WARPS * STAGES * 2u * NT)
#else
#define ELEMENTS (8u * PARTS)
#define AT_ONCE 8u
#bind in u32 x_parts
#if BRAIN
#define mma_part(c, a, b) mma_bf16(c, a, b)
#else
#define mma_part(c, a, b) mma_f16(c, a, b)
// What the sums of each row of x are multiplied with.
#bind in float x_factors
#end
#end
#shared u4 x_tile (WARPS * STAGES * ELEMENTS * NT)
// A whole number that every sum of a chunk is added to: its bits are those of a float whose last
// digit is 1, so the sum is that float minus FLOAT_BASE.
#define INT_BASE 0x4b400000
#define FLOAT_BASE 12582912.0f

// The bytes of the matrix that band r is of.
FN Bytes band_bytes(ARGS, u32 which, u32 r) {
#if SECOND
  return matrix_bytes(args, r);
#else
  return matrix_bytes(args, which);
#end
}

// What a thread holds of a turn's chunk: codes and scales, or numbers, of each band.
typedef struct {
#if PLAIN
  u4 numbers[4u * BANDS];
#else
  u32 codes[8u * BANDS];
  f4 scale[4u * BANDS];
#end
} Chunk;

// The first column of chunk c of a tile, and how far after it run `run` of 16 columns begins.
#if PLAIN
FN u32 first_column(u32 c) { return 64u * c; }
FN u32 run_after(u32 run) { return 16u * run; }
#else
FN u32 first_column(u32 c) { return pair_column(c, 0u); }
FN u32 run_after(u32 run) {
  return (pair_column(0u, 1u) - pair_column(0u, 0u)) * (run / 2u) + 16u * (run % 2u);
}
#end

// The tile of turn k of a round whose first tile is `first`.
FN u32 tile_of(u32 first, u32 k) { return first + k / CHUNKS * WARPS; }

// Where element `element` of row r of eight rows is in this warp's part of x_tile, and how far
// after it in a stage, for `more` elements and n times eight rows further. `more` is a multiple of
// AT_ONCE.
FN u32 place_of(u32 element, u32 r) {
  return (SUBGROUP * STAGES * ELEMENTS + element) * NT + (r ^ (element * (8u / AT_ONCE) % 8u));
}
FN u32 place_after(u32 stage, u32 more, u32 n) {
  return (stage * ELEMENTS + more) * NT + 8u * n;
}

#if INT_DOT
// The same for the scales of a row's pair in x_scale.
FN u32 scale_place(u32 pair, u32 r) { return (SUBGROUP * STAGES * 2u + pair) * NT + r; }
FN u32 scale_after(u32 stage, u32 n) { return stage * 2u * NT + 8u * n; }
#end

// The first row of x of this workgroup. Neighbouring workgroups multiply the same bands with other
// rows of x, X_GROUPS together, so that the chip's cache has the bands for all but the first.
FN u32 first_token(ARGS) { return (GROUP_X + GROUP_Y * N_GROUPS_X) % X_GROUPS * NT; }

// Begins to copy the columns of turn k of a round, of this workgroup's of `count` rows of x; the
// last one stands for those after it.
FN void fetch(ARGS, u32 n_in, u32 first, u32 k, u32 count) {
  const u32 tile = tile_of(first, k), more = first_column(k % CHUNKS);
  const u32 stage = k % STAGES, begin = first_token(args);
  if (tile < n_in / TILE_COLUMNS) {
    const u32 element = IN_SUBGROUP % AT_ONCE, own = IN_SUBGROUP / AT_ONCE;
    UNROLL for (u32 i = 0u; i < ELEMENTS * NT / 32u; i++) {
      const u32 part = i / (AT_ONCE * NT / 32u), after = 32u / AT_ONCE * (i % (AT_ONCE * NT / 32u));
      const u32 row = min_u32(begin + own + after, count - 1u);
      const u32 to = place_of(element, own + after % 8u);
#if INT_DOT
      const u32 at = row * n_in + run_after(element) + tile * TILE_COLUMNS;
      copy_async_from(x_tile, to, place_after(stage, 0u, after / 8u), x_codes, at, more);
#else
      const u32 at = (row * PARTS + part) * n_in + tile * TILE_COLUMNS + run_after(element / 2u)
                     + 8u * (element % 2u);
      copy_async_from(x_tile, to, place_after(stage, 8u * part, after / 8u), x_parts, 2u * at,
                      2u * more);
#end
    }
#if INT_DOT
    const u32 pair = IN_SUBGROUP % 2u, scaled = IN_SUBGROUP / 2u;
    if (scaled < NT) {
      UNROLL for (u32 i = 0u; i < (NT + 15u) / 16u; i++) {
        const u32 row = min_u32(begin + scaled + 16u * i, count - 1u);
        const u32 at = row * n_in + run_after(2u * pair) + tile * TILE_COLUMNS;
        copy_async_from(x_scale, scale_place(pair, scaled), scale_after(stage, 2u * i), x_scales,
                        at / 2u, more / 2u);
      }
    }
#end
  }
  copy_commit();
}

#if PDL
// Brings each band, of rows of row_bytes, to the chip's cache, while the launch before this one
// ends. Neighbouring workgroups that multiply the same bands need it once.
FN void fetch_first(ARGS, u32 which, u32 row_bytes, PRIVATE const u32 *bands) {
  if (LANE != 0u || first_token(args) != 0u) return;
  UNROLL for (u32 r = 0u; r < BANDS; r++) {
    prefetch(band_bytes(args, which, r), bands[r], 16u * row_bytes);
  }
}
#end

// Loads chunk c of a tile of each band; bands[r] is where band r begins.
FN void load_chunk(ARGS, u32 which, u32 tile, u32 c, PRIVATE const u32 *bands, PRIVATE Chunk *out) {
  UNROLL for (u32 r = 0u; r < BANDS; r++) {
    const Bytes b = band_bytes(args, which, r);
    const u32 at = bands[r] + tile * TILE_BYTES;
#if PLAIN
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      out->numbers[4u * r + run] = sixteen_columns(b, at, run);
    }
#else
    chunk_codes(args, b, at, c, out->codes + 8u * r);
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      out->scale[4u * r + 2u * p] = pair_scales(args, b, at, LANE_G, c, p);
      out->scale[4u * r + 2u * p + 1u] = pair_scales(args, b, at, LANE_G + 8u, c, p);
    }
#end
  }
}

#if INT_DOT
// The sum that is held as bits of a float; see INT_BASE.
FN float sum_of(int bits) { return as_f32((u32)bits) - FLOAT_BASE; }

// Adds pair p of a band's chunk with eight rows of x, whose words are `x`. The scales of rows 2 t
// and 2 t + 1 are `one` and `two`.
FN void add_pair(u32 p, PRIVATE const u32 *codes, PRIVATE const f4 *scale, PRIVATE const u32 *x,
                 u4 one, u4 two, PRIVATE float *acc) {
  int first[4] = {INT_BASE, INT_BASE, INT_BASE, INT_BASE};
  int second[4] = {INT_BASE, INT_BASE, INT_BASE, INT_BASE};
  const u32 own[4] = {codes[2u * p], codes[4u + 2u * p], codes[2u * p + 1u], codes[5u + 2u * p]};
  if (SCALED == 16u) {
    mma_i8_half(first, own, x + 2u * p);
    mma_i8_half(second, own + 2, x + 2u * p + 1u);
  } else {
    mma_i8(first, own, x + 2u * p);
  }
  // Sums of columns: those of the first and of the second 16, or of both.
  const f2 sum_one = F2(as_f32(one.y), as_f32(one.w)), sum_two = F2(as_f32(two.y), as_f32(two.w));
  const float both_one = sum_one.x + sum_one.y, both_two = sum_two.x + sum_two.y;
  UNROLL for (u32 i = 0u; i < 4u; i++) {
    const f4 s = scale[2u * p + i / 2u];
    const float factor = as_f32(i % 2u == 0u ? one.x : two.x);
    const f2 sum = i % 2u == 0u ? sum_one : sum_two;
    if (SCALED == 16u) {
      acc[i] += factor * (s.x * sum_of(first[i]) + s.z * sum_of(second[i]));
      if (SHIFTED) acc[i] += s.y * sum.x + s.w * sum.y;
    } else {
      acc[i] += factor * s.x * sum_of(first[i]);
      if (SHIFTED) acc[i] += s.y * (i % 2u == 0u ? both_one : both_two);
    }
  }
}

FN void add_chunk(ARGS, u32 stage, PRIVATE const Chunk *own, PRIVATE float *acc) {
  const u32 at = scale_place(0u, 2u * LANE_T);
  UNROLL for (u32 n = 0u; n < GROUPS_OF_X; n++) {
    u32 x[4];
    load_matrices_from(x, x_tile, place_of(IN_SUBGROUP / 8u, IN_SUBGROUP % 8u),
                       place_after(stage, 0u, n));
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      const u4 one = element_from(x_scale, at, scale_after(stage, n) + p * NT);
      const u4 two = element_from(x_scale, at, scale_after(stage, n) + p * NT + 1u);
      UNROLL for (u32 r = 0u; r < BANDS; r++) {
        add_pair(p, own->codes + 8u * r, own->scale + 4u * r, x, one, two,
                 acc + 4u * (r * GROUPS_OF_X + n));
      }
    }
  }
}
#else
// sum += a times run `run` of eight rows of x, over all parts.
FN void add_parts(ARGS, u32 stage, u32 run, u32 n, PRIVATE const u32 *a, PRIVATE float *sum) {
  UNROLL for (u32 q = 0u; q < PARTS; q += 2u) {
    const u32 j = IN_SUBGROUP / 8u;
    const u32 element = 8u * min_u32(q + j / 2u, PARTS - 1u) + 2u * run + j % 2u;
    u32 x[4];
    load_matrices_from(x, x_tile, place_of(element, IN_SUBGROUP % 8u), place_after(stage, 0u, n));
    mma_part(sum, a, x);
    if (q + 1u < PARTS) mma_part(sum, a, x + 2);
  }
}

#if PLAIN
FN void add_chunk(ARGS, u32 stage, PRIVATE const Chunk *own, PRIVATE float *acc) {
  UNROLL for (u32 run = 0u; run < 4u; run++) {
    UNROLL for (u32 r = 0u; r < BANDS; r++) {
      const u4 q = own->numbers[4u * r + run];
      const u32 a[4] = {q.x, q.y, q.z, q.w};
      UNROLL for (u32 n = 0u; n < GROUPS_OF_X; n++) {
        add_parts(args, stage, run, n, a, acc + 4u * (r * GROUPS_OF_X + n));
      }
    }
  }
}
#else
// Four codes as float16, which holds them, in words 0 and 2.
FN void codes_as_halves(u32 words, PRIVATE u32 *out) {
  const f4 v = f4_signed(words);
  out[0] = halves_of(v.x, v.y);
  out[2] = halves_of(v.z, v.w);
}

// Scales come after the products. A shift is multiplied with the sum of x's columns, which is a
// product with ones.
FN void add_chunk(ARGS, u32 stage, PRIVATE const Chunk *own, PRIVATE float *acc) {
  const u32 ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
  UNROLL for (u32 r = 0u; r < BANDS; r++) {
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      u32 a[4];
      codes_as_halves(own->codes[8u * r + run], a);
      codes_as_halves(own->codes[8u * r + 4u + run], a + 1);
      const f4 top = own->scale[4u * r + run / 2u * 2u];
      const f4 low = own->scale[4u * r + run / 2u * 2u + 1u];
      const f2 s = run % 2u == 0u ? F2(top.x, low.x) : F2(top.z, low.z);
      const f2 shift = run % 2u == 0u ? F2(top.y, low.y) : F2(top.w, low.w);
      UNROLL for (u32 n = 0u; n < GROUPS_OF_X; n++) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, all[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_parts(args, stage, run, n, a, sum);
        if (SHIFTED) add_parts(args, stage, run, n, ones, all);
        UNROLL for (u32 i = 0u; i < 4u; i++) {
          acc[4u * (r * GROUPS_OF_X + n) + i] += (i < 2u ? s.x : s.y) * sum[i];
          if (SHIFTED) acc[4u * (r * GROUPS_OF_X + n) + i] += (i < 2u ? shift.x : shift.y) * all[i];
        }
      }
    }
  }
}
#end
#end

// Multiplies the chunk of turn k of a round. With EARLY it is chunks[k % 2], and that of the next
// turn is loaded meanwhile.
FN void take_turn(ARGS, u32 which, u32 n_in, u32 first, u32 k, u32 count, PRIVATE const u32 *bands,
                  PRIVATE Chunk *chunks, PRIVATE float *acc) {
  const u32 tile = tile_of(first, k), c = k % CHUNKS;
#if EARLY
  PRIVATE const Chunk *own = &chunks[k % 2u];
#else
  PRIVATE const Chunk *own = chunks;
#end
  copy_wait(STAGES - 2u);
  sync_warp();
  fetch(args, n_in, first, k + STAGES - 1u, count);
#if EARLY
  load_chunk(args, which, min_u32(tile_of(first, k + 1u), n_in / TILE_COLUMNS - 1u),
             (k + 1u) % CHUNKS, bands, &chunks[(k + 1u) % 2u]);
#else
  load_chunk(args, which, tile, c, bands, chunks);
#end
  add_chunk(args, k % STAGES, own, acc);
}

// Leaves the sums over this warp's columns in x_tile. Element 4 g + t of a band and eight rows of x
// has columns 2 t and 2 t + 1 of rows g and g + 8.
FN void store_sums(ARGS, PRIVATE const float *acc) {
  UNROLL for (u32 i = 0u; i < BANDS * GROUPS_OF_X; i++) {
    x_tile[(SUBGROUP * BANDS * GROUPS_OF_X + i) * 32u + IN_SUBGROUP] =
        U4(as_u32(acc[4u * i]), as_u32(acc[4u * i + 1u]), as_u32(acc[4u * i + 2u]),
           as_u32(acc[4u * i + 3u]));
  }
}

// Element i of the sums over all columns; there are `count` rows of x.
FN f4 sum_of_warps(ARGS, u32 i, u32 count) {
  f4 total = F4_ALL(0.0f);
  NO_UNROLL for (u32 s = 0u; s < WARPS; s++) {
    total += f4_bits(x_tile[s * BANDS * GROUPS_OF_X * 32u + i]);
  }
#if INT_DOT
#else
#if BRAIN
#else
  const u32 token = first_token(args) + i / 32u % GROUPS_OF_X * 8u + i % 4u * 2u;
  const float one = x_factors[min_u32(token, count - 1u)];
  const float two = x_factors[min_u32(token + 1u, count - 1u)];
  total = F4(total.x * one, total.y * two, total.z * one, total.w * two);
#end
#end
  return total;
}

// Multiplies the bands with this workgroup's of `count` rows of x. Leaves the sums of warps in
// x_tile, for every thread to read.
FN void multiply_bands(ARGS, u32 which, u32 n_in, u32 count, PRIVATE const u32 *bands) {
  const u32 n_tiles = n_in / TILE_COLUMNS;
  float acc[4u * BANDS * GROUPS_OF_X];
  Chunk chunks[2];
  for (u32 o = 0u; o < 4u * BANDS * GROUPS_OF_X; o++) acc[o] = 0.0f;
  UNROLL for (u32 k = 0u; k + 1u < STAGES; k++) fetch(args, n_in, SUBGROUP, k, count);
#if EARLY
  load_chunk(args, which, min_u32(SUBGROUP, n_tiles - 1u), 0u, bands, chunks);
#end
  NO_UNROLL for (u32 first = SUBGROUP; first < n_tiles; first = tile_of(first, ROUND)) {
    UNROLL for (u32 k = 0u; k < ROUND; k++) {
      if (ROUND <= CHUNKS || tile_of(first, k) < n_tiles) {
        take_turn(args, which, n_in, first, k, count, bands, chunks, acc);
      }
    }
  }
  // Sums take the place of columns, also of those of other warps.
  BARRIER();
  store_sums(args, acc);
  BARRIER();
}
