#use step exp attending scoring query_tile
// softmax(scale q k^T) v over a paged cache of float16, with the online softmax of Milakov and
// Gimelshein (2018), by the matrix units of NVIDIA's chips. A workgroup takes R query rows that
// read the same key/value head; a warp takes 16 of them, or what there is. The workgroup walks over
// its share of the keys, KT at a time; keys are copied while values are used, and values while keys
// are. Queries and weights are sums of two numbers of float16, which is as exact as float32. With
// SPLIT, several workgroups share the keys and attention_join adds up their results. For NVIDIA
// only.
#bind in u32 keys
#bind in u32 values
// The rows that a warp takes, and halves of its 16 places that have rows.
#define WARP_ROWS (R < 16u ? R : 16u)
#define ROWS_AT_ONCE (R < 4u ? R : 4u)
#define HALVES (R > 8u ? 2u : 1u)
// Rows of keys and of values in elements of sixteen bytes. A row of a tile in shared memory has one
// more: an odd number, so that eight rows lie in different banks.
#define K_ROW (KD / 8u)
#define V_ROW (VD / 8u)
#define K_STRIDE (K_ROW | 1u)
#define V_STRIDE (V_ROW | 1u)
// Elements that a thread copies of a tile.
#define K_EACH ((KT * K_ROW + WG - 1u) / WG)
#define V_EACH ((KT * V_ROW + WG - 1u) / WG)
// The place of element i of a tile in shared memory.
#define K_AT(i) ((i) / K_ROW * K_STRIDE + (i) % K_ROW)
#define V_AT(i) ((i) / V_ROW * V_STRIDE + (i) % V_ROW)
// Weights are at most 1; so many times larger, their second parts are no subnormal numbers.
#define ENLARGED 4096.0f
#shared u4 q_parts (2u * R * K_STRIDE)
#shared u4 k_tile (KT * K_STRIDE)
#shared u4 v_tile (KT * V_STRIDE)
// What a row's parts are multiplied with.
#shared float q_factor R
#if BLOCK_TILES
#else
// The slots of the cache of a tile of keys and of the next one.
#shared u32 slots (2u * KT)
#end

// Where a tile of keys is: the slot of its first key, in a block of the cache that has BLOCK_TILES
// whole tiles; else the place of its slots in `slots`. `last` is the number of its last key.
typedef struct {
  u32 first, last;
} Place;

// Which keys the two rows of a thread see.
typedef struct {
  u32 head[2], index[2], begin[2], end[2];
} Sight;

// Two numbers as two words: their float16, and the float16 of what is left.
FN u2 two_parts(float low, float high) {
  const u32 word = halves_of(low, high);
  const f2 taken = f2_halves(word);
  return U2(word, halves_of(low - taken.x, high - taken.y));
}

// Splits rows from `first` on, ROWS_AT_ONCE of this warp's, eight columns a thread. All are loaded
// before the first of them is used. Places beyond the last row repeat it.
FN void split_rows(ARGS, Tile tile, u32 first) {
  const u32 c = IN_SUBGROUP;
  f4 low[ROWS_AT_ONCE], high[ROWS_AT_ONCE];
  float largest[ROWS_AT_ONCE];
  UNROLL for (u32 i = 0u; i < ROWS_AT_ONCE; i++) {
    const u32 r = min_u32(first + i, R - 1u);
    const u32 row = token_of(tile, r) * params.n_heads + head_of(tile, r);
    low[i] = high[i] = F4_ALL(0.0f);
    if (c < K_ROW) {
      low[i] = q[row * (KD / 4u) + 2u * c];
      high[i] = q[row * (KD / 4u) + 2u * c + 1u];
    }
  }
  UNROLL for (u32 i = 0u; i < ROWS_AT_ONCE; i++) {
    largest[i] = f4_largest(f4_max(f4_abs(low[i]), f4_abs(high[i])));
  }
  UNROLL for (u32 k = 1u; k < 32u; k *= 2u) {
    UNROLL for (u32 i = 0u; i < ROWS_AT_ONCE; i++) {
      largest[i] = max_f32(largest[i], shuffle_xor(largest[i], k));
    }
  }
  UNROLL for (u32 i = 0u; i < ROWS_AT_ONCE; i++) {
    const u32 r = min_u32(first + i, R - 1u);
    // The exponent of the largest number becomes 14.
    const u32 exponent = max_u32(as_u32(largest[i]) >> 23, 15u);
    const float scale = as_f32((268u - exponent) << 23);
    if (c == 0u) q_factor[r] = as_f32((exponent - 14u) << 23);
    if (c < K_ROW) {
      const u2 one = two_parts(low[i].x * scale, low[i].y * scale);
      const u2 two = two_parts(low[i].z * scale, low[i].w * scale);
      const u2 three = two_parts(high[i].x * scale, high[i].y * scale);
      const u2 four = two_parts(high[i].z * scale, high[i].w * scale);
      q_parts[r * K_STRIDE + c] = U4(one.x, two.x, three.x, four.x);
      q_parts[(R + r) * K_STRIDE + c] = U4(one.y, two.y, three.y, four.y);
    }
  }
}

// Each warp splits its own rows.
FN void split_queries(ARGS, Tile tile) {
  NO_UNROLL for (u32 i = 0u; i < WARP_ROWS; i += ROWS_AT_ONCE) {
    split_rows(args, tile, 16u * SUBGROUP + i);
  }
}

FN Place place_of(ARGS, Tile tile, Share share, u32 t) {
  Place place;
  place.last = min_u32(share.n_keys - t * KT, KT) - 1u;
#if BLOCK_TILES
  const u32 block = cache_block(args, tile.seq, FIRST_COLUMN, t, BLOCK_TILES);
  place.first = ((block * params.n_kv_heads + tile.kv_head) * BLOCK_TILES + t % BLOCK_TILES) * KT;
#else
  place.first = t % 2u * KT;
  for (u32 k = LANE; k < KT; k += WG) {
    slots[place.first + k] = slot_of(args, tile, t * KT + min_u32(k, place.last));
  }
#end
  return place;
}

// In a block, the rows of a tile follow one another; those after the last key are copied, too.
// Otherwise all slots are read before the first copy, which no read passes.
FN void copy_keys(ARGS, Place place) {
#if BLOCK_TILES
  const u32 at = 16u * (place.first * K_ROW + LANE);
  UNROLL for (u32 e = 0u; e < K_EACH; e++) {
    const u32 i = LANE + e * WG;
    if (KT * K_ROW % WG != 0u && i >= KT * K_ROW) continue;
    if (WG % K_ROW == 0u) {
      copy_async_from(k_tile, K_AT(LANE), e * K_AT(WG), keys, at, 16u * e * WG);
    } else {
      copy_async_from(k_tile, K_AT(i), 0u, keys, at, 16u * e * WG);
    }
  }
#else
  u32 from[K_EACH];
  UNROLL for (u32 e = 0u; e < K_EACH; e++) {
    const u32 i = min_u32(LANE + e * WG, KT * K_ROW - 1u);
    from[e] = 16u * (slots[place.first + i / K_ROW] * K_ROW + i % K_ROW);
  }
  UNROLL for (u32 e = 0u; e < K_EACH; e++) {
    const u32 i = LANE + e * WG;
    if (i < KT * K_ROW) copy_async(k_tile, K_AT(i), keys, from[e]);
  }
#end
}

FN void copy_values(ARGS, Place place) {
#if BLOCK_TILES
  const u32 at = 16u * (place.first * V_ROW + LANE);
  UNROLL for (u32 e = 0u; e < V_EACH; e++) {
    const u32 i = LANE + e * WG;
    if (KT * V_ROW % WG != 0u && i >= KT * V_ROW) continue;
    if (WG % V_ROW == 0u) {
      copy_async_from(v_tile, V_AT(LANE), e * V_AT(WG), values, at, 16u * e * WG);
    } else {
      copy_async_from(v_tile, V_AT(i), 0u, values, at, 16u * e * WG);
    }
  }
#else
  u32 from[V_EACH];
  UNROLL for (u32 e = 0u; e < V_EACH; e++) {
    const u32 i = min_u32(LANE + e * WG, KT * V_ROW - 1u);
    from[e] = 16u * (slots[place.first + i / V_ROW] * V_ROW + i % V_ROW);
  }
  UNROLL for (u32 e = 0u; e < V_EACH; e++) {
    const u32 i = LANE + e * WG;
    if (i < KT * V_ROW) copy_async(v_tile, V_AT(i), values, from[e]);
  }
#end
}

// Products of this warp's rows with the tile's keys: four of each eight keys, as mma_f16 leaves
// them.
FN void multiply_keys(ARGS, PRIVATE float *s) {
  const u32 j = IN_SUBGROUP / 8u, i = IN_SUBGROUP % 8u;
  // A sum waits for the one before it, so products of the queries' second parts have sums of their
  // own.
  float small[KT / 2u];
  UNROLL for (u32 o = 0u; o < KT / 2u; o++) s[o] = small[o] = 0.0f;
  const u32 row = min_u32(16u * SUBGROUP + j % 2u * 8u + i, R - 1u);
  UNROLL for (u32 d = 0u; d < KD / 16u; d++) {
    u32 a[4], rest[4];
    load_matrices(a, q_parts, row * K_STRIDE + 2u * d + j / 2u);
    load_matrices(rest, q_parts, (R + row) * K_STRIDE + 2u * d + j / 2u);
    UNROLL for (u32 n = 0u; n < KT / 8u; n += 2u) {
      u32 b[4];
      load_matrices(b, k_tile, (8u * (n + j / 2u) + i) * K_STRIDE + 2u * d + j % 2u);
      mma_f16(s + 4u * n, a, b);
      mma_f16(small + 4u * n, rest, b);
      mma_f16(s + 4u * n + 4u, a, b + 2);
      mma_f16(small + 4u * n + 4u, rest, b + 2);
    }
  }
  UNROLL for (u32 o = 0u; o < KT / 2u; o++) s[o] += small[o];
}

// acc += weights times values. Keys after the last one have no weight, and the last one's value:
// zero times what the cache has there could be NaN.
FN void add_values(ARGS, Place place, PRIVATE const float *s, PRIVATE float *acc) {
  const u32 j = IN_SUBGROUP / 8u, i = IN_SUBGROUP % 8u;
  UNROLL for (u32 k = 0u; k < KT / 16u; k++) {
    u32 a[4], rest[4];
    UNROLL for (u32 o = 0u; o < 4u; o++) {
      a[o] = rest[o] = 0u;
      if (o % 2u >= HALVES) continue;
      const u2 parts = two_parts(ENLARGED * s[8u * k + 2u * o], ENLARGED * s[8u * k + 2u * o + 1u]);
      a[o] = parts.x;
      rest[o] = parts.y;
    }
    const u32 row = min_u32(16u * k + j % 2u * 8u + i, place.last);
    UNROLL for (u32 d = 0u; d < VD / 8u; d += 2u) {
      u32 b[4];
      load_transposed(b, v_tile, row * V_STRIDE + d + j / 2u);
      mma_f16(acc + 4u * d, a, b);
      mma_f16(acc + 4u * d, rest, b);
      mma_f16(acc + 4u * d + 4u, a, b + 2);
      mma_f16(acc + 4u * d + 4u, rest, b + 2);
    }
  }
}

// The row in `half` of this thread's places: g in half 0, g + 8 in half 1.
FN u32 row_of(ARGS, u32 half) { return 16u * SUBGROUP + 8u * half + IN_SUBGROUP / 4u; }

FN Sight sight_of(ARGS, Tile tile) {
  Sight sight;
  UNROLL for (u32 half = 0u; half < HALVES; half++) {
    const u32 r = min_u32(row_of(args, half), R - 1u), token = token_of(tile, r);
    sight.head[half] = head_of(tile, r);
    sight.index[half] = (u32)batch(args, INDEX, token);
    sight.begin[half] = first_key(args, sight.index[half]);
    sight.end[half] = end_key(args, last_key(args, token), tile.seq);
  }
  return sight;
}

// Makes scores of a half's products, and weights of scores, relative to the largest score so far.
FN void weigh(ARGS, Sight sight, u32 half, u32 first, PRIVATE float *s, PRIVATE float *top,
              PRIVATE float *sum, PRIVATE float *acc) {
  const u32 t = IN_SUBGROUP % 4u;
  const float factor = q_factor[min_u32(row_of(args, half), R - 1u)];
  float now = top[half];
  UNROLL for (u32 n = 0u; n < KT / 8u; n++) {
    UNROLL for (u32 e = 0u; e < 2u; e++) {
      const u32 key = first + 8u * n + 2u * t + e, at = 4u * n + 2u * half + e;
      const int seen = key >= sight.begin[half] && key < sight.end[half];
      const float score = scored(args, s[at] * factor, sight.head[half], sight.index[half], key);
      s[at] = seen ? score : LOWEST;
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
      const float weight = exp_f32(s[at] - now);
      s[at] = s[at] <= LOWEST ? 0.0f : weight;
      sum[half] += s[at];
    }
  }
}

FN void store_row(ARGS, Tile tile, u32 half, float top, float own_sum, PRIVATE const float *acc) {
  const u32 t = IN_SUBGROUP % 4u, r = row_of(args, half);
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
  const Sight sight = sight_of(args, tile);
  const int has_keys = share.begin < share.end;
  float acc[VD / 2u], s[KT / 2u], top[2], sum[2];
  Place place, next;
  place.first = place.last = 0u;
  if (has_keys) place = place_of(args, tile, share, share.begin);
#if BLOCK_TILES
#else
  BARRIER();
#end
  // Keys and values are on their way while queries are split.
  if (has_keys) copy_keys(args, place);
  copy_commit();
  if (has_keys) copy_values(args, place);
  copy_commit();
  if (has_keys) split_queries(args, tile);
  for (u32 o = 0u; o < VD / 2u; o++) acc[o] = 0.0f;
  UNROLL for (u32 half = 0u; half < HALVES; half++) {
    top[half] = LOWEST;
    sum[half] = 0.0f;
#if SINKS
    // A sink counts as a key without a value, in the first share.
    if (GROUP_Z == 0u) {
      top[half] = sinks[sight.head[half]];
      if (IN_SUBGROUP % 4u == 0u) sum[half] = 1.0f;
    }
#end
  }
  for (u32 t = share.begin; t < share.end; t++) {
    next = place;
    if (t + 1u < share.end) next = place_of(args, tile, share, t + 1u);
    copy_wait(1);
    BARRIER();
    multiply_keys(args, s);
    BARRIER();
    if (t + 1u < share.end) copy_keys(args, next);
    copy_commit();
    UNROLL for (u32 half = 0u; half < HALVES; half++) {
      weigh(args, sight, half, t * KT, s, top, sum, acc);
    }
    copy_wait(1);
    BARRIER();
    add_values(args, place, s, acc);
    BARRIER();
    if (t + 1u < share.end) copy_values(args, next);
    copy_commit();
    place = next;
  }
  UNROLL for (u32 half = 0u; half < HALVES; half++) {
    store_row(args, tile, half, top[half], sum[half], acc);
  }
}
