#use warp_tile
// Products of TM rows of w, which are tiles, with TN rows of x, by the matrix units of NVIDIA's
// chips (sm_80 and later). A warp takes WARP_ROWS by WARP_TOKENS of them. Weights go from memory to
// registers, since tiles have the order of fragments; rows of x come through shared memory, STAGES
// ahead, in steps of 64 columns. A row of eight bytes-times-two or sixteen bytes of x is an
// element, and neighbouring elements are of neighbouring rows of x, so that no two of eight share a
// bank.
//
// With INT_DOT, x was rounded to int8 with a scale for 32 columns (`quantize`). Otherwise it is a
// sum of PARTS rows of float16 or, with BRAIN, of bfloat16 (`split_rows`), which is as exact as
// float32.
#if INT_DOT
#define ELEMENTS 4u
#bind in u32 x_codes
#bind in u32 x_scales
// For each pair of 16 columns: the scale and the sum of the first, then of the second.
#shared u4 x_scale (STAGES * 2u * TN)
#else
#define ELEMENTS (8u * PARTS)
#bind in u32 x_parts
#end
#shared u4 x_tile (STAGES * ELEMENTS * TN)

// Begins to copy the columns of a slice.
FN void fetch(ARGS, u32 slice, u32 n_slices) {
  const u32 stage = slice % STAGES;
  if (slice < n_slices) {
    for (u32 i = LANE; i < ELEMENTS * TN; i += WG) {
      const u32 from = x_rows[i % TN] * m.n_in;
#if INT_DOT
      copy_async(x_tile, stage * ELEMENTS * TN + i, x_codes, from + run_column(slice, i / TN));
#else
      const u32 part = i / TN / 8u, eighth = i / TN % 8u;
      const u32 column = run_column(slice, eighth / 2u) + 8u * (eighth % 2u);
      copy_async(x_tile, stage * ELEMENTS * TN + i, x_parts,
                 2u * (from * PARTS + part * m.n_in + column));
#end
    }
#if INT_DOT
    for (u32 i = LANE; i < 2u * TN; i += WG) {
      copy_async(x_scale, stage * 2u * TN + i, x_scales,
                 (x_rows[i % TN] * m.n_in + run_column(slice, i / TN * 2u)) / 2u);
    }
#end
  }
  copy_commit();
}

#if INT_DOT
#use pair_sums

// Adds the products of pair p. `scale` has those of rows g and g + 8 for each pair.
FN void add_pair(ARGS, u32 p, u32 token, u32 stage, PRIVATE const u32 *a, PRIVATE const f4 *scale,
                 PRIVATE const u32 *x, PRIVATE float *acc) {
  int sum[4], rest[4];
  pair_sums(p, a, x, sum, rest);
  const u32 at = stage * 2u * TN + p * TN + token + 2u * LANE_T;
  const u4 one = x_scale[at], two = x_scale[at + 1u];
  acc[0] += scaled(scale[2u * p], one, sum[0], rest[0]);
  acc[1] += scaled(scale[2u * p], two, sum[1], rest[1]);
  acc[2] += scaled(scale[2u * p + 1u], one, sum[2], rest[2]);
  acc[3] += scaled(scale[2u * p + 1u], two, sum[3], rest[3]);
}

FN void add_slice(ARGS, Bytes b, u32 slice, PRIVATE const u32 *bands, PRIVATE float *acc) {
  const u32 stage = slice % STAGES, c = slice % CHUNKS;
  u32 a[8u * RM];
  f4 scale[4u * RM];
  UNROLL for (u32 r = 0u; r < RM; r++) {
    const u32 tile = bands[r] + slice / CHUNKS * TILE_BYTES;
    chunk_codes(args, b, tile, c, a + 8u * r);
    UNROLL for (u32 p = 0u; p < 2u; p++) {
      scale[4u * r + 2u * p] = pair_scales(args, b, tile, LANE_G, c, p);
      scale[4u * r + 2u * p + 1u] = pair_scales(args, b, tile, LANE_G + 8u, c, p);
    }
  }
  UNROLL for (u32 n = 0u; n < RN; n++) {
    const u32 token = warp_token(args) + 8u * n;
    u32 x[4];
    load_matrices(x, x_tile,
                  (stage * 4u + IN_SUBGROUP / 8u) * TN + token + IN_SUBGROUP % 8u);
    UNROLL for (u32 r = 0u; r < RM; r++) {
      UNROLL for (u32 p = 0u; p < 2u; p++) {
        add_pair(args, p, token, stage, a + 8u * r, scale + 4u * r, x, acc + 4u * (r * RN + n));
      }
    }
  }
}
#else
// sum += a times 16 columns (run `run`) of eight rows of x, over all parts.
FN void add_parts(ARGS, u32 stage, u32 run, u32 token, PRIVATE const u32 *a, PRIVATE float *sum) {
  UNROLL for (u32 q = 0u; q < PARTS; q += 2u) {
    const u32 j = IN_SUBGROUP / 8u;
    const u32 element = 8u * min_u32(q + j / 2u, PARTS - 1u) + 2u * run + j % 2u;
    u32 x[4];
    load_matrices(x, x_tile, (stage * ELEMENTS + element) * TN + token + IN_SUBGROUP % 8u);
    mma_part(sum, a, x);
    if (q + 1u < PARTS) mma_part(sum, a, x + 2);
  }
}

#if WGMMA
// Four warps multiply 64 rows with all rows of x, which they read from shared memory themselves.
FN void add_slice(ARGS, Bytes b, u32 slice, PRIVATE const u32 *bands, PRIVATE float *acc) {
  Raw raw;
  u32 a[16];
  load_raw(args, b, slice, bands[0], &raw);
  fragments(args, b, slice, bands[0], &raw, a);
  wgmma_begin(TN, acc);
  UNROLL for (u32 run = 0u; run < 4u; run++) {
    UNROLL for (u32 part = 0u; part < PARTS; part++) {
      const u32 first = (slice % STAGES * ELEMENTS + 8u * part + 2u * run) * TN;
      const Descriptor x = matrix_descriptor(x_tile, first, 16u * TN, 128u);
      wgmma_part(TN, acc, a + 4u * run, x_tile, x);
    }
  }
  wgmma_commit();
  wgmma_wait(TN, acc, 16u, a);
}
#else
#if PLAIN
FN void add_slice(ARGS, Bytes b, u32 slice, PRIVATE const u32 *bands, PRIVATE float *acc) {
  UNROLL for (u32 run = 0u; run < 4u; run++) {
    UNROLL for (u32 r = 0u; r < RM; r++) {
      const u4 q = sixteen_columns(b, bands[r], 4u * slice + run);
      const u32 a[4] = {q.x, q.y, q.z, q.w};
      UNROLL for (u32 n = 0u; n < RN; n++) {
        add_parts(args, slice % STAGES, run, warp_token(args) + 8u * n, a, acc + 4u * (r * RN + n));
      }
    }
  }
}
#else
// Two codes as float16.
FN void codes_as_halves(u32 words, PRIVATE u32 *out) {
  const f4 v = f4_signed(words);
  out[0] = halves_of(v.x, v.y);
  out[2] = halves_of(v.z, v.w);
}

// Codes are exact as float16; their scale comes after the product.
FN void add_slice(ARGS, Bytes b, u32 slice, PRIVATE const u32 *bands, PRIVATE float *acc) {
  const u32 ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
  const u32 c = slice % CHUNKS;
  UNROLL for (u32 r = 0u; r < RM; r++) {
    const u32 tile = bands[r] + slice / CHUNKS * TILE_BYTES;
    u32 codes[8];
    chunk_codes(args, b, tile, c, codes);
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      u32 a[4];
      codes_as_halves(codes[run], a);
      codes_as_halves(codes[4u + run], a + 1);
      const f4 top = pair_scales(args, b, tile, LANE_G, c, run / 2u);
      const f4 low = pair_scales(args, b, tile, LANE_G + 8u, c, run / 2u);
      const f2 s = run % 2u == 0u ? F2(top.x, low.x) : F2(top.z, low.z);
      const f2 shift = run % 2u == 0u ? F2(top.y, low.y) : F2(top.w, low.w);
      UNROLL for (u32 n = 0u; n < RN; n++) {
        const u32 token = warp_token(args) + 8u * n;
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, all[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_parts(args, slice % STAGES, run, token, a, sum);
        if (SHIFTED) add_parts(args, slice % STAGES, run, token, ones, all);
        UNROLL for (u32 i = 0u; i < 4u; i++) {
          acc[4u * (r * RN + n) + i] += (i < 2u ? s.x : s.y) * sum[i];
          if (SHIFTED) acc[4u * (r * RN + n) + i] += (i < 2u ? shift.x : shift.y) * all[i];
        }
      }
    }
  }
}
#end
#end
#end

// acc[4 (r RN + n) + i] is number i of the product of band r of this warp with its n-th eight rows
// of x: see mma_f16. `bands`: where the bands begin in bytes of b. x_rows must be set.
FN void multiply_tiles(ARGS, Bytes b, PRIVATE const u32 *bands, PRIVATE float *acc) {
  const u32 n_slices = m.n_in / 64u;
  for (u32 o = 0u; o < 4u * RM * RN; o++) acc[o] = 0.0f;
  for (u32 slice = 0u; slice + 1u < STAGES; slice++) fetch(args, slice, n_slices);
  NO_UNROLL for (u32 slice = 0u; slice < n_slices; slice++) {
    copy_wait(STAGES - 2u);
#if WGMMA
    show_copies();
#end
    BARRIER();
    fetch(args, slice + STAGES - 1u, n_slices);
    add_slice(args, b, slice, bands, acc);
  }
  // The next product may fetch now.
  BARRIER();
  scale_sums(args, acc);
}
