#use step element stored
// Stores rows of keys and of values in the cache. A thread stores two numbers, or a block of 32 in
// Q8_0. With TURNED, keys are rotated as `rope` does before they are stored, and queries x of
// `n_queries` columns are rotated into y, two numbers for each thread.

// How many numbers a row has, and how many bytes it takes in the cache.
typedef struct {
  u32 n_heads, block_tokens, k_numbers, k_row_bytes, v_numbers, v_row_bytes;
#if TURNED
  u32 n_queries, n_rot, neox, first;
#end
} Params;

#bind struct Params params
#bind in float k
#bind in float v
#bind out u32 keys
#bind out u32 values
#if TURNED
#bind in float x
#bind out float y
#use turn
#end

#if TURNED
// Key number i of all tokens' heads, rotated.
FN float key(ARGS, u32 i) {
  const u32 d = i % params.k_numbers - params.first;  // wraps around before the first rotated one
  if (d >= params.n_rot) return k[i];
  const Turn by = turn_of(args, i / params.k_numbers / params.n_heads, d);
  return k[i] * by.own + k[(u32)((int)i + by.other)] * by.partner;
}

// Rotates queries i and i + 1 of all tokens' heads.
FN void turn_queries(ARGS, u32 i) {
  for (u32 q = i; q < i + 2u; q++) {
    const u32 d = q % params.k_numbers - params.first;
    Turn by = {0, 1.0f, 0.0f};
    if (d < params.n_rot) by = turn_of(args, q / params.n_queries, d);
    y[q] = x[q] * by.own + x[(u32)((int)q + by.other)] * by.partner;
  }
}
#else
FN float key(ARGS, u32 i) { return k[i]; }
#end

FN float number(ARGS, int is_value, u32 i) { return is_value ? v[i] : key(args, i); }
#use store_row

// Whether float16 can't hold a key of head `row` of all tokens' heads.
FN int key_is_beyond(ARGS, u32 row) {
  int beyond = 0;
  for (u32 j = 0u; j < params.k_numbers && K_TYPE != F32; j++) {
    if (is_beyond(key(args, row * params.k_numbers + j))) beyond = 1;
  }
  return beyond;
}

KERNEL(kv_write) {
  u32 e = ELEMENT;
#if TURNED
  const u32 n_pairs = n_rows(args, N_TOKENS) * (params.n_queries / 2u);
  if (e < n_pairs) {
    turn_queries(args, 2u * e);
    return;
  }
  e -= n_pairs;
#end
  const u32 n_head_rows = n_rows(args, N_TOKENS) * params.n_heads;
  const u32 n_keys = n_head_rows * (params.k_numbers / at_once(K_TYPE));
  const int is_value = e >= n_keys;
  const u32 i = is_value ? e - n_keys : e;
  const u32 kind = is_value ? V_TYPE : K_TYPE;
  const u32 numbers = is_value ? params.v_numbers : params.k_numbers;
  const u32 row_bytes = is_value ? params.v_row_bytes : params.k_row_bytes;
  const u32 per_row = numbers / at_once(kind);
  if (i >= n_head_rows * per_row) return;
  const u32 head = i / per_row % params.n_heads;
  const u32 t = i / per_row / params.n_heads;
  const u32 d = i % per_row * at_once(kind);
  const u32 at = cache_slot(args, t, head, params.n_heads, params.block_tokens) * row_bytes;
  const u32 from = (t * params.n_heads + head) * numbers + d;
  store_numbers(args, is_value, kind, at, d, from);
  if (is_value && d == 0u && key_is_beyond(args, t * params.n_heads + head)) {
    spoil(args, at, from);
  }
}
