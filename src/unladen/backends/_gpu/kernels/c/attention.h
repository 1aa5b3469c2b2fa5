#use step exp cache_rows attending scoring query_tile queries
// softmax(scale q k^T) v over the paged cache, with the online softmax of Milakov and Gimelshein
// (2018). A workgroup of WG threads takes R = TILE_TOKENS * TILE_HEADS query rows that read the
// same key/value head. It walks over the keys, KT at a time: KT threads compute a row's scores,
// then VD threads add up values. It leaves out tiles of keys that no row sees. With SPLIT, several
// workgroups share the keys and attention_join adds up their results.
#define ROW_LANES (WG / KT)
#define ROWS_EACH ((R + ROW_LANES - 1u) / ROW_LANES)
#define DIM_LANES (VD < WG ? VD : WG)
#define DIMS_EACH ((VD + WG - 1u) / WG)
#define ROW_GROUPS (R < WG / DIM_LANES ? R : WG / DIM_LANES)
#define ACC_ROWS ((R + ROW_GROUPS - 1u) / ROW_GROUPS)

#shared float weight (R * KT)
#shared float largest (R * KT)
#shared float row_largest R
#shared u32 value_at KT

// The scores of key `key` for this thread's rows, stored for the maximum.
FN void score_rows(ARGS, Tile tile, u32 key, u32 n_keys, PRIVATE float *score) {
  const u32 key_lane = LANE % KT, row_lane = LANE / KT;
  const u32 slot = slot_of(args, tile, min_u32(key, n_keys - 1u));
  if (row_lane == 0u) value_at[key_lane] = slot * params.v_row_bytes;
  for (u32 e = 0u; e < ROWS_EACH; e++) score[e] = 0.0f;
  for (u32 d = 0u; d < KD / 4u; d++) {
    const f4 k = key_four(args, slot * params.k_row_bytes, 4u * d);
    for (u32 e = 0u; e < ROWS_EACH; e++) {
      const f4 own = q_tile[min_u32(row_lane + e * ROW_LANES, R - 1u) * (KD / 4u) + d];
      score[e] += f4_dot(own, k);
    }
  }
  for (u32 e = 0u; e < ROWS_EACH; e++) {
    const u32 r = row_lane + e * ROW_LANES;
    const u32 t = token_of(tile, r);
    const u32 p = (u32)batch(args, INDEX, t);
    const int seen = key >= first_key(args, p) && key < end_key(args, last_key(args, t), tile.seq);
    score[e] = seen ? scored(args, score[e], head_of(tile, r), p, key) : LOWEST;
    if (r < R) largest[r * KT + key_lane] = score[e];
  }
}

// Leaves each row's largest score in its first place of `largest`.
FN void reduce_largest(ARGS) {
  const u32 key_lane = LANE % KT, row_lane = LANE / KT;
  for (u32 h = KT / 2u; h > 0u; h /= 2u) {
    for (u32 e = 0u; e < ROWS_EACH; e++) {
      const u32 at = (row_lane + e * ROW_LANES) * KT + key_lane;
      if (key_lane < h && at < R * KT) largest[at] = max_f32(largest[at], largest[at + h]);
    }
    BARRIER();
  }
}

// Adds up the values of n keys.
FN void add_values(ARGS, u32 n, PRIVATE float *acc, PRIVATE float *sum) {
  const u32 row_group = LANE / DIM_LANES, dim = LANE % DIM_LANES;
  for (u32 a = 0u; a < ACC_ROWS; a++) {
    const u32 r = min_u32(row_group + a * ROW_GROUPS, R - 1u);
    const float before = row_largest[r];
    const float shrink = exp_f32(before - max_f32(largest[r * KT], before));
    sum[a] *= shrink;
    for (u32 e = 0u; e < DIMS_EACH; e++) acc[a * DIMS_EACH + e] *= shrink;
  }
  for (u32 k = 0u; k < n; k++) {
    for (u32 e = 0u; e < DIMS_EACH; e++) {
      const float v = value_one(args, value_at[k], min_u32(dim + e * WG, VD - 1u));
      for (u32 a = 0u; a < ACC_ROWS; a++) {
        const u32 r = min_u32(row_group + a * ROW_GROUPS, R - 1u);
        acc[a * DIMS_EACH + e] += v * weight[r * KT + k];
      }
    }
    for (u32 a = 0u; a < ACC_ROWS; a++) {
      sum[a] += weight[min_u32(row_group + a * ROW_GROUPS, R - 1u) * KT + k];
    }
  }
}

FN void store_rows(ARGS, Tile tile, PRIVATE const float *acc, PRIVATE const float *sum) {
  const u32 row_group = LANE / DIM_LANES, dim = LANE % DIM_LANES;
  for (u32 a = 0u; a < ACC_ROWS; a++) {
    const u32 r = row_group + a * ROW_GROUPS;
    if (row_group >= ROW_GROUPS || r >= R || !has_row(tile, r)) continue;
    const u32 row = token_of(tile, r) * params.n_heads + head_of(tile, r);
#if SPLIT
    const u32 at = (row * N_GROUPS_Z + GROUP_Z) * (VD + 2u);
    const float total = 1.0f;
    if (dim == 0u) {
      y[at + VD] = row_largest[r];
      y[at + VD + 1u] = sum[a];
    }
#else
    const u32 at = row * VD;
    const float total = sum[a];
#end
    for (u32 e = 0u; e < DIMS_EACH; e++) {
      const u32 d = dim + e * WG;
      if (d < VD) y[at + d] = acc[a * DIMS_EACH + e] / total;
    }
  }
}

KERNEL(attention) {
  const Tile tile = tile_of(args);
  const Share share = share_of(args, tile);
  const u32 key_lane = LANE % KT, row_lane = LANE / KT;
  float acc[ACC_ROWS * DIMS_EACH], sum[ACC_ROWS], score[ROWS_EACH];
  load_queries(args, tile);
  // A sink counts as a key without a value, in the first share.
  float counted = 0.0f;
  float top = LOWEST;
#if SINKS
  if (GROUP_Z == 0u) {
    counted = 1.0f;
    top = sinks[head_of(tile, LANE)];
  }
#end
  if (LANE < R) row_largest[LANE] = top;
  for (u32 a = 0u; a < ACC_ROWS; a++) sum[a] = counted;
  for (u32 a = 0u; a < ACC_ROWS * DIMS_EACH; a++) acc[a] = 0.0f;
  BARRIER();
  for (u32 t = share.begin; t < share.end; t++) {
    score_rows(args, tile, t * KT + key_lane, share.n_keys, score);
    BARRIER();
    reduce_largest(args);
    for (u32 e = 0u; e < ROWS_EACH; e++) {
      const u32 r = row_lane + e * ROW_LANES;
      if (r < R) {
        const float now = max_f32(largest[r * KT], row_largest[r]);
        weight[r * KT + key_lane] = score[e] <= LOWEST ? 0.0f : exp_f32(score[e] - now);
      }
    }
    BARRIER();
    if (LANE / DIM_LANES < ROW_GROUPS) {
      add_values(args, min_u32(KT, share.n_keys - t * KT), acc, sum);
    }
    BARRIER();
    if (LANE < R) row_largest[LANE] = max_f32(row_largest[LANE], largest[LANE * KT]);
    BARRIER();
  }
  store_rows(args, tile, acc, sum);
}
