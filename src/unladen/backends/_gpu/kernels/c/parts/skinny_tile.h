#use tiles
// Products of BANDS bands of 16 rows of w, which are tiles, with up to NT rows of x, by the matrix
// units of NVIDIA's chips (sm_80 and later). The warps of a workgroup share the columns: warp s
// takes chunks s, s + WARPS, ... of every band. Weights go from memory to registers, a turn ahead,
// since tiles have the order of fragments. Rows of x come through shared memory, STAGES turns ahead;
// each warp copies what it multiplies itself, so warps don't wait for one another until the end.
//
// x_tile has elements of sixteen bytes of a row of x: a run of 16 columns with INT_DOT, where x was
// rounded to int8 with a scale for 32 columns (`quantize`), and otherwise 8 columns of one of the
// PARTS of x (`split_rows`). The order of rows differs from element to element, so that no two of
// eight that are read or written at once share a bank.
#define WARPS (WG / 32u)
#define TURN_TILES (WARPS / CHUNKS)
#define GROUPS_OF_X (NT / 8u)
// A turn's bytes of a band, and how many turns ahead they come to the chip's cache.
#define PART_BYTES (TILE_BYTES / CHUNKS)
#define AHEAD (4096u / PART_BYTES + 1u)
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

// The tile of a warp's turn; its chunk is number subgroup % CHUNKS in all of them.
FN u32 tile_of(u32 subgroup, u32 turn) { return subgroup / CHUNKS + turn * TURN_TILES; }

// How many turns this warp has.
FN u32 n_turns_of(u32 subgroup, u32 n_in) { return (n_in / 64u + WARPS - 1u - subgroup) / WARPS; }

// The column of run `run` of 16 columns of a turn.
FN u32 turn_column(u32 subgroup, u32 turn, u32 run) {
#if PLAIN
  return tile_of(subgroup, turn) * TILE_COLUMNS + 16u * run;
#else
  return tile_of(subgroup, turn) * TILE_COLUMNS + pair_column(subgroup % CHUNKS, run / 2u)
         + 16u * (run % 2u);
#end
}

// Where a turn's element of a row of x is in x_tile.
FN u32 place_of(u32 subgroup, u32 turn, u32 element, u32 token) {
  return ((subgroup * STAGES + turn % STAGES) * ELEMENTS + element) * NT
         + (token ^ (element * (8u / AT_ONCE) % 8u));
}

FN u32 scale_place(u32 subgroup, u32 turn, u32 pair, u32 token) {
  return ((subgroup * STAGES + turn % STAGES) * 2u + pair) * NT + token;
}

// Begins to copy a turn's columns of `count` rows of x; the last one stands for those after it.
FN void fetch(ARGS, u32 n_in, u32 turn, u32 n_turns, u32 count) {
  if (turn < n_turns) {
    UNROLL for (u32 k = 0u; k < ELEMENTS * NT / 32u; k++) {
      const u32 i = IN_SUBGROUP + 32u * k, part = i / (AT_ONCE * NT);
      const u32 element = i % AT_ONCE, token = i / AT_ONCE % NT;
      const u32 row = min_u32(token, count - 1u);
      const u32 to = place_of(SUBGROUP, turn, part * AT_ONCE + element, token);
#if INT_DOT
      copy_async(x_tile, to, x_codes, row * n_in + turn_column(SUBGROUP, turn, element));
#else
      const u32 column = turn_column(SUBGROUP, turn, element / 2u) + 8u * (element % 2u);
      copy_async(x_tile, to, x_parts, 2u * ((row * PARTS + part) * n_in + column));
#end
    }
#if INT_DOT
    UNROLL for (u32 k = 0u; k < (2u * NT + 31u) / 32u; k++) {
      const u32 i = IN_SUBGROUP + 32u * k, pair = i % 2u, token = i / 2u;
      if (token < NT) {
        const u32 from = min_u32(token, count - 1u) * n_in;
        copy_async(x_scale, scale_place(SUBGROUP, turn, pair, token), x_scales,
                   (from + turn_column(SUBGROUP, turn, 2u * pair)) / 2u);
      }
    }
#end
  }
  copy_commit();
}

// Brings a turn's part of the tiles to the chip's cache.
FN void fetch_tiles(ARGS, u32 which, u32 turn, u32 n_turns, PRIVATE const u32 *bands) {
  const u32 within = SUBGROUP % CHUNKS * PART_BYTES + 128u * IN_SUBGROUP;
  if (turn < n_turns && 128u * IN_SUBGROUP < PART_BYTES) {
    UNROLL for (u32 r = 0u; r < BANDS; r++) {
      prefetch(band_bytes(args, which, r),
               bands[r] + tile_of(SUBGROUP, turn) * TILE_BYTES + within);
    }
  }
}

// Brings the tiles of the first turns to the chip's cache.
FN void fetch_first(ARGS, u32 which, u32 n_in, PRIVATE const u32 *bands) {
  for (u32 turn = 0u; turn < AHEAD; turn++) {
    fetch_tiles(args, which, turn, n_turns_of(SUBGROUP, n_in), bands);
  }
}

// Loads a turn's chunk of each band; bands[r] is where band r begins.
FN void load_chunk(ARGS, u32 which, u32 turn, PRIVATE const u32 *bands, PRIVATE Chunk *out) {
  UNROLL for (u32 r = 0u; r < BANDS; r++) {
    const Bytes b = band_bytes(args, which, r);
    const u32 tile = bands[r] + tile_of(SUBGROUP, turn) * TILE_BYTES;
#if PLAIN
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      out->numbers[4u * r + run] = sixteen_columns(b, tile, run);
    }
#else
    const u32 c = SUBGROUP % CHUNKS;
    chunk_codes(args, b, tile, c, out->codes + 8u * r);
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      out->scale[4u * r + 2u * p] = pair_scales(args, b, tile, LANE_G, c, p);
      out->scale[4u * r + 2u * p + 1u] = pair_scales(args, b, tile, LANE_G + 8u, c, p);
    }
#end
  }
}

#if INT_DOT
// The sum that is held as bits of a float; see INT_BASE.
FN float sum_of(int bits) { return as_f32((u32)bits) - FLOAT_BASE; }

// What a pair adds to an element: `scale` is of its row and pair, `first` and `second` are the sums
// of the first and of the second 16 columns, or `first` that of both.
FN float scaled(f4 scale, u4 x, int first, int second) {
  const float factor = as_f32(x.x);
  float value = 0.0f;
  if (SCALED == 16u) {
    value = factor * (scale.x * sum_of(first) + scale.z * sum_of(second));
    if (SHIFTED) value += scale.y * as_f32(x.y) + scale.w * as_f32(x.w);
  } else {
    value = factor * scale.x * sum_of(first);
    if (SHIFTED) value += scale.y * (as_f32(x.y) + as_f32(x.w));
  }
  return value;
}

// Adds pair p of a band's chunk with eight rows of x, whose words are `x` and whose scales are `one`
// and `two`.
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
  UNROLL for (u32 i = 0u; i < 4u; i++) {
    acc[i] += scaled(scale[2u * p + i / 2u], i % 2u == 0u ? one : two, first[i], second[i]);
  }
}

FN void add_chunk(ARGS, u32 turn, PRIVATE const Chunk *own, PRIVATE float *acc) {
  UNROLL for (u32 n = 0u; n < GROUPS_OF_X; n++) {
    u32 x[4];
    load_matrices(x, x_tile,
                  place_of(SUBGROUP, turn, IN_SUBGROUP / 8u, 8u * n + IN_SUBGROUP % 8u));
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      const u32 at = scale_place(SUBGROUP, turn, p, 8u * n + 2u * LANE_T);
      const u4 one = x_scale[at], two = x_scale[at + 1u];
      UNROLL for (u32 r = 0u; r < BANDS; r++) {
        add_pair(p, own->codes + 8u * r, own->scale + 4u * r, x, one, two,
                 acc + 4u * (r * GROUPS_OF_X + n));
      }
    }
  }
}
#else
// sum += a times run `run` of eight rows of x, over all parts.
FN void add_parts(ARGS, u32 turn, u32 run, u32 n, PRIVATE const u32 *a, PRIVATE float *sum) {
  UNROLL for (u32 q = 0u; q < PARTS; q += 2u) {
    const u32 j = IN_SUBGROUP / 8u;
    const u32 element = 8u * min_u32(q + j / 2u, PARTS - 1u) + 2u * run + j % 2u;
    u32 x[4];
    load_matrices(x, x_tile, place_of(SUBGROUP, turn, element, 8u * n + IN_SUBGROUP % 8u));
    mma_part(sum, a, x);
    if (q + 1u < PARTS) mma_part(sum, a, x + 2);
  }
}

#if PLAIN
FN void add_chunk(ARGS, u32 turn, PRIVATE const Chunk *own, PRIVATE float *acc) {
  UNROLL for (u32 run = 0u; run < 4u; run++) {
    UNROLL for (u32 r = 0u; r < BANDS; r++) {
      const u4 q = own->numbers[4u * r + run];
      const u32 a[4] = {q.x, q.y, q.z, q.w};
      UNROLL for (u32 n = 0u; n < GROUPS_OF_X; n++) {
        add_parts(args, turn, run, n, a, acc + 4u * (r * GROUPS_OF_X + n));
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
FN void add_chunk(ARGS, u32 turn, PRIVATE const Chunk *own, PRIVATE float *acc) {
  const u32 ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
  UNROLL for (u32 r = 0u; r < BANDS; r++) {
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      u32 a[4];
      codes_as_halves(own->codes[8u * r + run], a);
      codes_as_halves(own->codes[8u * r + 4u + run], a + 1);
      const f4 top = own->scale[4u * r + run / 2u * 2u], low = own->scale[4u * r + run / 2u * 2u + 1u];
      const f2 s = run % 2u == 0u ? F2(top.x, low.x) : F2(top.z, low.z);
      const f2 shift = run % 2u == 0u ? F2(top.y, low.y) : F2(top.w, low.w);
      UNROLL for (u32 n = 0u; n < GROUPS_OF_X; n++) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, all[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_parts(args, turn, run, n, a, sum);
        if (SHIFTED) add_parts(args, turn, run, n, ones, all);
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

// Multiplies `own`, the chunk of a turn, and loads that of the next turn meanwhile.
FN void take_turn(ARGS, u32 which, u32 n_in, u32 turn, u32 n_turns, u32 count,
                  PRIVATE const u32 *bands, PRIVATE const Chunk *own, PRIVATE Chunk *next,
                  PRIVATE float *acc) {
  copy_wait(STAGES - 2u);
  sync_warp();
  fetch(args, n_in, turn + STAGES - 1u, n_turns, count);
  fetch_tiles(args, which, turn + AHEAD, n_turns, bands);
  load_chunk(args, which, min_u32(turn + 1u, n_turns - 1u), bands, next);
  add_chunk(args, turn, own, acc);
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
  const u32 token = i / 32u % GROUPS_OF_X * 8u + i % 4u * 2u;
  const float one = x_factors[min_u32(token, count - 1u)];
  const float two = x_factors[min_u32(token + 1u, count - 1u)];
  total = F4(total.x * one, total.y * two, total.z * one, total.w * two);
#end
#end
  return total;
}

// Multiplies the bands with `count` rows of x. The sums are then in x_tile, for every thread.
FN void multiply_bands(ARGS, u32 which, u32 n_in, u32 count, PRIVATE const u32 *bands) {
  const u32 n_turns = n_turns_of(SUBGROUP, n_in);
  float acc[4u * BANDS * GROUPS_OF_X];
  Chunk even, odd;
  for (u32 o = 0u; o < 4u * BANDS * GROUPS_OF_X; o++) acc[o] = 0.0f;
  for (u32 turn = 0u; turn + 1u < STAGES; turn++) fetch(args, n_in, turn, n_turns, count);
  if (n_turns > 0u) load_chunk(args, which, 0u, bands, &even);
  NO_UNROLL for (u32 turn = 0u; turn < n_turns; turn += 2u) {
    take_turn(args, which, n_in, turn, n_turns, count, bands, &even, &odd, acc);
    if (turn + 1u == n_turns) break;
    take_turn(args, which, n_in, turn + 1u, n_turns, count, bands, &odd, &even, acc);
  }
  copy_wait(0u);
  // Sums take the place of columns, also of those of other warps.
  BARRIER();
  store_sums(args, acc);
  BARRIER();
}
