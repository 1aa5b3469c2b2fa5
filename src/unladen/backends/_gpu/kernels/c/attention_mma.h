#use step exp attending scoring query_tile
// softmax(scale q k^T) v over a paged cache of float16, with the online softmax of Milakov and
// Gimelshein (2018), by the matrix units of NVIDIA's chips. A workgroup takes R query rows that
// read the same key/value head, filled up to ROWS; a warp takes 16 of them. The workgroup walks
// over its share of the keys, KT at a time; keys are copied while values are used, and values while
// keys are. Queries and weights are sums of two numbers of float16, which is as exact as float32.
// With SPLIT, several workgroups share the keys and attention_join adds up their results. For
// NVIDIA only.
#bind in u32 keys
#bind in u32 values
#define ROWS ((R + 15u) / 16u * 16u)
// Elements of a row of a tile: an odd number, so that eight rows lie in different banks.
#define K_STRIDE (KD / 8u | 1u)
#define V_STRIDE (VD / 8u | 1u)
// Weights are at most 1; so many times larger, their second parts are no subnormal numbers.
#define ENLARGED 4096.0f
#shared u4 q_parts (2u * ROWS * K_STRIDE)
#shared u4 k_tile (KT * K_STRIDE)
#shared u4 v_tile (KT * V_STRIDE)
// What a row's parts are multiplied with.
#shared float q_factor ROWS
// The slots of the cache of this tile of keys and of the next one.
#shared u32 slots (2u * KT)

// Two numbers as two words: their float16, and the float16 of what is left.
FN u2 two_parts(float low, float high) {
  const u32 word = halves_of(low, high);
  const f2 taken = f2_halves(word);
  return U2(word, halves_of(low - taken.x, high - taken.y));
}

// Each warp splits its own rows, eight columns a thread.
FN void split_queries(ARGS, Tile tile) {
  const u32 c = IN_SUBGROUP;
  for (u32 i = 0u; i < 16u; i++) {
    const u32 r = 16u * SUBGROUP + i;
    const u32 row = token_of(tile, r) * params.n_heads + head_of(tile, r);
    f4 low = F4_ALL(0.0f), high = F4_ALL(0.0f);
    if (c < KD / 8u) {
      low = q[row * (KD / 4u) + 2u * c];
      high = q[row * (KD / 4u) + 2u * c + 1u];
    }
    float largest = f4_largest(f4_max(f4_abs(low), f4_abs(high)));
    for (u32 k = 1u; k < 32u; k *= 2u) largest = max_f32(largest, shuffle_xor(largest, k));
    // The exponent of the largest number becomes 14.
    const u32 exponent = max_u32(as_u32(largest) >> 23, 15u);
    const float scale = as_f32((268u - exponent) << 23);
    if (c == 0u) q_factor[r] = as_f32((exponent - 14u) << 23);
    if (c < KD / 8u) {
      const u2 one = two_parts(low.x * scale, low.y * scale);
      const u2 two = two_parts(low.z * scale, low.w * scale);
      const u2 three = two_parts(high.x * scale, high.y * scale);
      const u2 four = two_parts(high.z * scale, high.w * scale);
      q_parts[r * K_STRIDE + c] = U4(one.x, two.x, three.x, four.x);
      q_parts[(ROWS + r) * K_STRIDE + c] = U4(one.y, two.y, three.y, four.y);
    }
  }
}

FN void find_slots(ARGS, Tile tile, Share share, u32 t) {
  for (u32 k = LANE; k < KT; k += WG) {
    slots[t % 2u * KT + k] = slot_of(args, tile, min_u32(t * KT + k, share.n_keys - 1u));
  }
}

FN void copy_keys(ARGS, u32 t) {
  for (u32 i = LANE; i < KT * (KD / 8u); i += WG) {
    const u32 k = i / (KD / 8u), c = i % (KD / 8u);
    copy_async(k_tile, k * K_STRIDE + c, keys,
               slots[t % 2u * KT + k] * params.k_row_bytes + 16u * c);
  }
}

FN void copy_values(ARGS, u32 t) {
  for (u32 i = LANE; i < KT * (VD / 8u); i += WG) {
    const u32 k = i / (VD / 8u), c = i % (VD / 8u);
    copy_async(v_tile, k * V_STRIDE + c, values,
               slots[t % 2u * KT + k] * params.v_row_bytes + 16u * c);
  }
}

// Products of this warp's rows with the tile's keys: four of each eight keys, as mma_f16 leaves
// them.
FN void multiply_keys(ARGS, PRIVATE float *s) {
  const u32 j = IN_SUBGROUP / 8u, i = IN_SUBGROUP % 8u;
  UNROLL for (u32 o = 0u; o < KT / 2u; o++) s[o] = 0.0f;
  const u32 row = 16u * SUBGROUP + j % 2u * 8u + i;
  UNROLL for (u32 d = 0u; d < KD / 16u; d++) {
    u32 a[4], rest[4];
    load_matrices(a, q_parts, row * K_STRIDE + 2u * d + j / 2u);
    load_matrices(rest, q_parts, (ROWS + row) * K_STRIDE + 2u * d + j / 2u);
    UNROLL for (u32 n = 0u; n < KT / 8u; n += 2u) {
      u32 b[4];
      load_matrices(b, k_tile, (8u * (n + j / 2u) + i) * K_STRIDE + 2u * d + j % 2u);
      mma_f16(s + 4u * n, a, b);
      mma_f16(s + 4u * n, rest, b);
      mma_f16(s + 4u * n + 4u, a, b + 2);
      mma_f16(s + 4u * n + 4u, rest, b + 2);
    }
  }
}

// acc += weights times values.
FN void add_values(ARGS, PRIVATE const float *s, PRIVATE float *acc) {
  const u32 j = IN_SUBGROUP / 8u, i = IN_SUBGROUP % 8u;
  UNROLL for (u32 k = 0u; k < KT / 16u; k++) {
    u32 a[4], rest[4];
    UNROLL for (u32 o = 0u; o < 4u; o++) {
      const u2 parts = two_parts(ENLARGED * s[8u * k + 2u * o], ENLARGED * s[8u * k + 2u * o + 1u]);
      a[o] = parts.x;
      rest[o] = parts.y;
    }
    UNROLL for (u32 d = 0u; d < VD / 8u; d += 2u) {
      u32 b[4];
      load_transposed(b, v_tile, (16u * k + j % 2u * 8u + i) * V_STRIDE + d + j / 2u);
      mma_f16(acc + 4u * d, a, b);
      mma_f16(acc + 4u * d, rest, b);
      mma_f16(acc + 4u * d + 4u, a, b + 2);
      mma_f16(acc + 4u * d + 4u, rest, b + 2);
    }
  }
}

// Makes scores of row g (half 0) or g + 8 (half 1) of products, and weights of scores, relative to
// the largest score so far.
FN void weigh(ARGS, Tile tile, u32 half, u32 first, PRIVATE float *s, PRIVATE float *top,
              PRIVATE float *sum, PRIVATE float *acc) {
  const u32 t = IN_SUBGROUP % 4u, r = 16u * SUBGROUP + 8u * half + IN_SUBGROUP / 4u;
  const u32 token = token_of(tile, r), p = (u32)batch(args, INDEX, token);
  const u32 begin = first_key(args, p), end = end_key(args, last_key(args, token), tile.seq);
  float now = top[half];
  UNROLL for (u32 n = 0u; n < KT / 8u; n++) {
    UNROLL for (u32 e = 0u; e < 2u; e++) {
      const u32 key = first + 8u * n + 2u * t + e, at = 4u * n + 2u * half + e;
      const int seen = key >= begin && key < end;
      s[at] = seen ? scored(args, s[at] * q_factor[r], head_of(tile, r), p, key) : LOWEST;
      now = max_f32(now, s[at]);
    }
  }
  now = max_f32(now, shuffle_xor(now, 1u));
  now = max_f32(now, shuffle_xor(now, 2u));
  const float shrink = exp_f32(top[half] - now);
  top[half] = now;
  sum[half] *= shrink;
  UNROLL for (u32 d = 0u; d < VD / 8u; d++) {
    acc[4u * d + 2u * half] *= shrink;
    acc[4u * d + 2u * half + 1u] *= shrink;
  }
  UNROLL for (u32 n = 0u; n < KT / 8u; n++) {
    UNROLL for (u32 e = 0u; e < 2u; e++) {
      const u32 at = 4u * n + 2u * half + e;
      s[at] = s[at] <= LOWEST ? 0.0f : exp_f32(s[at] - now);
      sum[half] += s[at];
    }
  }
}

FN void store_row(ARGS, Tile tile, u32 half, float top, float own_sum, PRIVATE const float *acc) {
  const u32 t = IN_SUBGROUP % 4u, r = 16u * SUBGROUP + 8u * half + IN_SUBGROUP / 4u;
  float sum = own_sum + shuffle_xor(own_sum, 1u);
  sum += shuffle_xor(sum, 2u);
  if (r >= R || !has_row(tile, r)) return;
  const u32 row = token_of(tile, r) * params.n_heads + head_of(tile, r);
#if SPLIT
  const u32 at = (row * N_GROUPS_Z + GROUP_Z) * (VD + 2u);
  const float divisor = ENLARGED;
  if (t == 0u) {
    y[at + VD] = top;
    y[at + VD + 1u] = sum;
  }
#else
  const u32 at = row * VD;
  const float divisor = ENLARGED * sum;
#end
  UNROLL for (u32 d = 0u; d < VD / 8u; d++) {
    y[at + 8u * d + 2u * t] = acc[4u * d + 2u * half] / divisor;
    y[at + 8u * d + 2u * t + 1u] = acc[4u * d + 2u * half + 1u] / divisor;
  }
}

KERNEL(attention_mma) {
  const Tile tile = tile_of(args);
  const Share share = share_of(args, tile);
  float acc[VD / 2u], s[KT / 2u], top[2], sum[2];
  split_queries(args, tile);
  for (u32 o = 0u; o < VD / 2u; o++) acc[o] = 0.0f;
  UNROLL for (u32 half = 0u; half < 2u; half++) {
    top[half] = LOWEST;
    sum[half] = 0.0f;
#if SINKS
    // A sink counts as a key without a value, in the first share.
    if (GROUP_Z == 0u) {
      top[half] = sinks[head_of(tile, 16u * SUBGROUP + 8u * half + IN_SUBGROUP / 4u)];
      if (IN_SUBGROUP % 4u == 0u) sum[half] = 1.0f;
    }
#end
  }
  if (share.begin < share.end) find_slots(args, tile, share, share.begin);
  BARRIER();
  if (share.begin < share.end) copy_keys(args, share.begin);
  copy_commit();
  for (u32 t = share.begin; t < share.end; t++) {
    copy_values(args, t);
    copy_commit();
    if (t + 1u < share.end) find_slots(args, tile, share, t + 1u);
    copy_wait(1);
    BARRIER();
    multiply_keys(args, s);
    BARRIER();
    if (t + 1u < share.end) copy_keys(args, t + 1u);
    copy_commit();
    UNROLL for (u32 half = 0u; half < 2u; half++) {
      weigh(args, tile, half, t * KT, s, top, sum, acc);
    }
    copy_wait(1);
    BARRIER();
    add_values(args, s, acc);
    BARRIER();
  }
  copy_wait(0);
  UNROLL for (u32 half = 0u; half < 2u; half++) {
    store_row(args, tile, half, top[half], sum[half], acc);
  }
}
