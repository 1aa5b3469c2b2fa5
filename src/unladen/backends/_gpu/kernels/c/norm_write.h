#use step sum stored
// What `rms_norm`, `rope` and `kv_write` give together. A workgroup takes a head of a token: it
// norms a head of the queries x and rotates it into y, or it norms and rotates a head of keys and
// stores it and its values in the cache. Without TURNED nothing is rotated.
typedef struct {
  // Heads of queries; of keys; and how many numbers a row has, and its bytes in the cache.
  u32 n_queries, n_heads, block_tokens, k_numbers, k_row_bytes, v_numbers, v_row_bytes;
  float query_eps, key_eps;
#if TURNED
  u32 n_rot, neox, first;
#end
} Params;

#bind struct Params params
#bind in float x
#bind in float k
#bind in float v
#bind in float query_w
#bind in float key_w
#bind out float y
#bind out u32 keys
#bind out u32 values
#if TURNED
#use turn
#end
// The workgroup's head of queries or of keys: normed, then also rotated.
#shared float normed ROW
#shared float rotated ROW

// The number that `i` is of all values, or in the workgroup's head of keys.
FN float number(ARGS, int is_value, u32 i) { return is_value ? v[i] : rotated[i]; }
#use store_row

// Norms the head that begins at number `from` of the queries or of the keys.
FN void norm_head(ARGS, int is_query, u32 from) {
  float s = 0.0f;
  for (u32 d = LANE; d < params.k_numbers; d += WG) {
    const float own = is_query ? x[from + d] : k[from + d];
    normed[d] = own;
    rotated[d] = is_query ? query_w[d] : key_w[d];  // only this thread reads it, below
    s += own * own;
  }
  const float mean = sum_all(args, s) / (float)params.k_numbers;
  const float factor = 1.0f / sqrt_f32(mean + (is_query ? params.query_eps : params.key_eps));
  for (u32 d = LANE; d < params.k_numbers; d += WG) {
    normed[d] = normed[d] * factor * rotated[d];
  }
  BARRIER();
}

// Number d of the head, of token t, rotated.
FN float turned(ARGS, u32 t, u32 d) {
#if TURNED
  const u32 at = d - params.first;  // wraps around before the first rotated one
  if (at < params.n_rot) {
    const Turn by = turn_of(args, t, at);
    return normed[d] * by.own + normed[(u32)((int)d + by.other)] * by.partner;
  }
#end
  return normed[d];
}

KERNEL(norm_write) {
  const u32 n_each = params.n_queries + params.n_heads;
  const u32 group = GROUP_X + GROUP_Y * N_GROUPS_X;
  const u32 t = group / n_each;
  const int is_query = group % n_each < params.n_queries;
#if PDL
  // The weights come closer while the launch before this one ends.
  if (LANE == 0u) {
    if (is_query) {
      prefetch(query_w, 0u, params.k_numbers / 4u * 16u);
    } else {
      prefetch(key_w, 0u, params.k_numbers / 4u * 16u);
    }
  }
  wait_for_previous();
#end
  // Only a folded grid has workgroups beyond the last head.
  if (GROUP_Y > 0u && t >= n_rows(args, ROW_KIND)) return;
  const u32 head = is_query ? group % n_each : group % n_each - params.n_queries;
  const u32 row = t * (is_query ? params.n_queries : params.n_heads) + head;
  norm_head(args, is_query, row * params.k_numbers);
  float beyond = 0.0f;
  for (u32 d = LANE; d < params.k_numbers; d += WG) {
    rotated[d] = turned(args, t, d);
    if (is_beyond(rotated[d])) beyond = 1.0f;
  }
  beyond = max_all(args, beyond);  // all threads have stored what they rotated
  if (is_query) {
    for (u32 d = LANE; d < params.k_numbers; d += WG) y[row * params.k_numbers + d] = rotated[d];
    return;
  }
  const u32 slot = cache_slot(args, t, head, params.n_heads, params.block_tokens);
  for (u32 d = at_once(K_TYPE) * LANE; d < params.k_numbers; d += at_once(K_TYPE) * WG) {
    store_numbers(args, 0, K_TYPE, slot * params.k_row_bytes, d, d);
  }
  const u32 at = slot * params.v_row_bytes;
  for (u32 d = at_once(V_TYPE) * LANE; d < params.v_numbers; d += at_once(V_TYPE) * WG) {
    store_numbers(args, 1, V_TYPE, at, d, row * params.v_numbers + d);
    if (d == 0u && beyond > 0.0f) spoil(args, at, row * params.v_numbers);
  }
}
