#use step exp cache_rows sum
// Attention to a window of the cache's keys and to every `ratio`-th of its values. Each row is both
// key and value. A workgroup takes one head of a token and WG rows at a time: first each thread
// computes a score, then each thread adds up four columns.
typedef struct {
  u32 n_heads, block_tokens, k_row_bytes, v_row_bytes, window, ratio;
  float scale;
} Params;

#bind struct Params params
#bind in f4 q
#bind out f4 y
#if SINKS
#bind in float sinks
#end

#define FOURS (KD / 4u)
#define EACH ((FOURS + WG - 1u) / WG)
#define LOWEST -3.0e38f
// Marks a slot that lies in the cache's values, not its keys.
#define POOLED 0x80000000u

#shared f4 query FOURS
#shared u32 slot_of WG
#shared float weight WG

FN f4 row_four(ARGS, u32 at, u32 d) {
  if (at >= POOLED) {
    const u32 i = (at - POOLED) * params.v_row_bytes;
    return F4(value_one(args, i, d), value_one(args, i, d + 1u), value_one(args, i, d + 2u),
              value_one(args, i, d + 3u));
  }
  return key_four(args, at * params.k_row_bytes, d);
}

// The slot of row i of those that the token sees, in the window first.
FN u32 slot_at(ARGS, u32 seq, u32 i, u32 n_seen, u32 n_near) {
  const u32 p = i < n_near ? n_seen - n_near + i : (i - n_near + 1u) * params.ratio - 1u;
  const u32 block = cache_block(args, seq, FIRST_COLUMN, p, params.block_tokens);
  const u32 slot = block * params.block_tokens + p % params.block_tokens;
  return i < n_near ? slot : slot | POOLED;
}

KERNEL(pooled_attention) {
  const u32 row = min_u32(GROUP_X + GROUP_Y * N_GROUPS_X,
                          n_rows(args, ROW_KIND) * params.n_heads - 1u);
  const u32 t = row / params.n_heads;
  const u32 seq = (u32)batch(args, SEQ_OF, t);
  const u32 n_seen = (u32)batch(args, INDEX, t) + 1u;
  for (u32 d = LANE; d < FOURS; d += WG) query[d] = q[row * FOURS + d];
  BARRIER();

  const u32 n_near = min_u32(n_seen, params.window);
  const u32 n = n_near + n_seen / params.ratio;
#if SINKS
  float top = sinks[row % params.n_heads], total = 1.0f;
#else
  float top = LOWEST, total = 0.0f;
#end
  f4 acc[EACH];
  for (u32 e = 0u; e < EACH; e++) acc[e] = F4_ALL(0.0f);
  for (u32 tile = 0u; tile < n; tile += WG) {
    const u32 i = tile + LANE;
    float s = LOWEST;
    if (i < n) {
      const u32 at = slot_at(args, seq, i, n_seen, n_near);
      slot_of[LANE] = at;
      s = 0.0f;
      for (u32 d = 0u; d < FOURS; d++) {
        const f4 own = query[d];
        s += f4_dot(own, row_four(args, at, 4u * d));
      }
      s *= params.scale;
    }
    const float next = max_f32(top, max_all(args, s));
    const float w = i < n ? exp_f32(s - next) : 0.0f;
    weight[LANE] = w;
    const float shrink = exp_f32(top - next);
    total = total * shrink + sum_all(args, w);
    top = next;
    const u32 count = min_u32(WG, n - tile);
    for (u32 e = 0u; e < EACH; e++) {
      const u32 d = LANE + e * WG;
      if (d < FOURS) {
        acc[e] = acc[e] * shrink;
        for (u32 k = 0u; k < count; k++) {
          acc[e] = acc[e] + weight[k] * row_four(args, slot_of[k], 4u * d);
        }
      }
    }
    BARRIER();
  }
  for (u32 e = 0u; e < EACH; e++) {
    const u32 d = LANE + e * WG;
    if (d < FOURS) y[row * FOURS + d] = acc[e] / total;
  }
}
