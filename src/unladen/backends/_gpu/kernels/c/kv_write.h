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

// The numbers that a thread stores in a cache of this kind.
FN u32 at_once(u32 kind) { return kind == Q8_0 ? 32u : 2u; }

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

FN void put_word(ARGS, int is_value, u32 at, u32 bits) {
  if (is_value) {
    store_u32(values, at, bits);
  } else {
    store_u32(keys, at, bits);
  }
}

FN void put_half(ARGS, int is_value, u32 at, u32 bits) {
  if (is_value) {
    store_u16(values, at, bits);
  } else {
    store_u16(keys, at, bits);
  }
}

// Rounds to the nearest, ties away from zero.
FN u32 code(float x, float inverse) {
  const float scaled = x * inverse;
  const float size = abs_f32(scaled);
  const float whole = floor_f32(size);
  const float q = size - whole >= 0.5f ? whole + 1.0f : whole;
  return u32_of((int)(scaled < 0.0f ? -q : q)) & 255u;
}

// Whether float16 can't hold the key of head `row` of all tokens' heads. Its value is then stored
// as NaN, which spoils every sum; a key that is NaN might be overlooked.
FN int key_is_beyond(ARGS, u32 row) {
  const float unit = K_TYPE == Q8_0 ? 127.0f : 1.0f;
  int beyond = 0;
  for (u32 j = 0u; j < params.k_numbers && K_TYPE != F32; j++) {
    const float part = key(args, row * params.k_numbers + j) / unit;
    if ((as_u32(part) & 0x7fffffffu) >= 0x477ff000u) beyond = 1;
  }
  return beyond;
}

FN void store_block(ARGS, int is_value, u32 to, u32 i) {
  float largest = 0.0f;
  for (u32 j = 0u; j < 32u; j++) {
    largest = max_f32(largest, abs_f32(number(args, is_value, i + j)));
  }
  const float d = largest / 127.0f;
  const float inverse = d >= 1.1754944e-38f ? 1.0f / d : 0.0f;
  put_half(args, is_value, to, stored_half(d));
  for (u32 j = 0u; j < 32u; j += 2u) {
    const u32 low = code(number(args, is_value, i + j), inverse);
    const u32 high = code(number(args, is_value, i + j + 1u), inverse);
    put_half(args, is_value, to + 2u + j, low | (high << 8));
  }
}

// Stores numbers d .. of a row that begins at byte `at`; `from` is the place of number d.
FN void store_numbers(ARGS, int is_value, u32 kind, u32 at, u32 d, u32 from) {
  if (kind == F32) {
    put_word(args, is_value, at + 4u * d, as_u32(number(args, is_value, from)));
    put_word(args, is_value, at + 4u * d + 4u, as_u32(number(args, is_value, from + 1u)));
  } else if (kind == F16) {
    const float low = number(args, is_value, from), high = number(args, is_value, from + 1u);
    put_word(args, is_value, at + 2u * d, stored_halves(low, high));
  } else {
    store_block(args, is_value, at + d / 32u * 34u, from);
  }
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
  store_numbers(args, is_value, kind, at, d, (t * params.n_heads + head) * numbers + d);
  if (is_value && d == 0u && key_is_beyond(args, t * params.n_heads + head)) {
    if (kind == F32) {
      put_word(args, is_value, at, 0x7fc00000u);
    } else {
      put_half(args, is_value, at, 0x7e00u);
    }
  }
}
