#use step exp cache_runs attending scoring query_tile queries
// softmax(scale q k^T) v over the paged cache, with the online softmax of Milakov and Gimelshein
// (2018). Reads several words of the cache at once, so rows must be multiples of that. A workgroup
// takes R = TILE_TOKENS * TILE_HEADS query rows that read the same key/value head. It walks over
// its share of the keys, KT at a time: first a thread computes the scores of a key, then a thread
// adds up four columns of every SLICES-th value. With SPLIT, several workgroups share the keys of a
// token and attention_join adds up their results.
#define FOURS (VD / 4u)
#define LANES (FOURS < KT ? FOURS : KT)
#define EACH ((FOURS + KT - 1u) / KT)
#define SLICES (KT / LANES)

// The index of each token, and the last key that it sees.
#shared u32 index TILE_TOKENS
#shared u32 last TILE_TOKENS
// [row][key], then [key][row] in `weight`.
#shared float scores (R * KT)
// The largest score of each quarter of a row.
#shared float largest (R * 4u)
#shared float weight (KT * R)
#shared u32 value_at KT
#shared f4 sums (KT * EACH)
#shared float counted KT

// The scores of key `key` for all rows.
FN void score_rows(ARGS, Tile tile, u32 key, u32 n_keys, PRIVATE float *score) {
  const u32 slot = slot_of(args, tile, min_u32(key, n_keys - 1u));
  value_at[LANE] = slot * params.v_row_bytes;
  for (u32 r = 0u; r < R; r++) score[r] = 0.0f;
  for (u32 d = 0u; d < KD / 8u; d++) {
    f4 k[2];
    key_eight(args, slot * params.k_row_bytes, 8u * d, k);
    for (u32 r = 0u; r < R; r++) {
      const u32 at = r * (KD / 4u) + 2u * d;
      const f4 low = q_tile[at], high = q_tile[at + 1u];
      score[r] += f4_dot(low, k[0]) + f4_dot(high, k[1]);
    }
  }
  for (u32 r = 0u; r < R; r++) {
    const u32 p = index[r / TILE_HEADS];
    const u32 end = end_key(args, last[r / TILE_HEADS], tile.seq);
    const int seen = key >= first_key(args, p) && key < end;
    score[r] = seen ? scored(args, score[r], head_of(tile, r), p, key) : LOWEST;
    scores[r * KT + LANE] = score[r];
  }
}

// Makes weights of scores, relative to the largest score so far.
FN void weigh(ARGS, PRIVATE const float *score, PRIVATE float *top, PRIVATE float *sum,
              PRIVATE f4 *acc) {
  for (u32 i = LANE; i < 4u * R; i += KT) {
    float best = LOWEST;
    for (u32 j = 0u; j < KT / 4u; j++) best = max_f32(best, scores[i * (KT / 4u) + j]);
    largest[i] = best;
  }
  BARRIER();
  for (u32 r = 0u; r < R; r++) {
    float now = top[r];
    for (u32 c = 0u; c < 4u; c++) now = max_f32(now, largest[4u * r + c]);
    const float shrink = exp_f32(top[r] - now);
    top[r] = now;
    sum[r] *= shrink;
    for (u32 e = 0u; e < EACH; e++) acc[r * EACH + e] = acc[r * EACH + e] * shrink;
    weight[LANE * R + r] = score[r] <= LOWEST ? 0.0f : exp_f32(score[r] - now);
  }
}

// Adds up the values of this thread's keys, four columns of each.
FN void add_values(ARGS, PRIVATE float *sum, PRIVATE f4 *acc) {
  const u32 slice = LANE / LANES, column = LANE % LANES;
  for (u32 k = slice; k < KT && slice < SLICES; k += SLICES) {
    for (u32 e = 0u; e < EACH; e++) {
      const f4 v = value_four(args, value_at[k], 4u * min_u32(column + e * KT, FOURS - 1u));
      for (u32 r = 0u; r < R; r++) {
        const float factor = weight[k * R + r];
        if (e == 0u) sum[r] += factor;
        acc[r * EACH + e] = acc[r * EACH + e] + v * factor;
      }
    }
  }
}

// Stores row r from the sums of all slices.
FN void store_row(ARGS, Tile tile, u32 r, float top) {
  const u32 column = LANE % LANES;
  const u32 row = token_of(tile, r) * params.n_heads + head_of(tile, r);
  float total = 0.0f;
  for (u32 s = 0u; s < SLICES; s++) total += counted[s * LANES];
#if SPLIT
  const u32 at = (row * N_GROUPS_Z + GROUP_Z) * (VD + 2u);
  const float divisor = 1.0f;
  if (LANE == 0u) {
    y[at + VD] = top;
    y[at + VD + 1u] = total;
  }
#else
  const u32 at = row * VD;
  const float divisor = total;
#end
  for (u32 e = 0u; e < EACH; e++) {
    const u32 d = column + e * KT;
    if (d >= FOURS) continue;
    f4 value = F4_ALL(0.0f);
    for (u32 s = 0u; s < SLICES; s++) {
      const f4 part = sums[e * KT + s * LANES + column];
      value = value + part;
    }
    y[at + 4u * d] = value.x / divisor;
    y[at + 4u * d + 1u] = value.y / divisor;
    y[at + 4u * d + 2u] = value.z / divisor;
    y[at + 4u * d + 3u] = value.w / divisor;
  }
}

KERNEL(attention_wide) {
  const Tile tile = tile_of(args);
  const Share share = share_of(args, tile);
  if (LANE < TILE_TOKENS) {
    const u32 t = tile.first + min_u32(LANE, tile.n_tokens - 1u);
    index[LANE] = (u32)batch(args, INDEX, t);
    last[LANE] = last_key(args, t);
  }
  load_queries(args, tile);
  BARRIER();
  float top[R], sum[R], score[R];
  f4 acc[R * EACH];
  for (u32 r = 0u; r < R; r++) {
    top[r] = LOWEST;
    sum[r] = 0.0f;
#if SINKS
    // A sink counts as a key without a value, in the first share.
    if (GROUP_Z == 0u) {
      top[r] = sinks[head_of(tile, r)];
      sum[r] = LANE / LANES == 0u ? 1.0f : 0.0f;
    }
#end
    for (u32 e = 0u; e < EACH; e++) acc[r * EACH + e] = F4_ALL(0.0f);
  }
  for (u32 t = share.begin; t < share.end; t++) {
    score_rows(args, tile, t * KT + LANE, share.n_keys, score);
    BARRIER();
    weigh(args, score, top, sum, acc);
    BARRIER();
    add_values(args, sum, acc);
    BARRIER();
  }
  for (u32 r = 0u; r < R; r++) {
    for (u32 e = 0u; e < EACH; e++) sums[e * KT + LANE] = acc[r * EACH + e];
    counted[LANE] = sum[r];
    BARRIER();
    if (LANE / LANES == 0u && has_row(tile, r)) store_row(args, tile, r, top[r]);
    BARRIER();
  }
}
