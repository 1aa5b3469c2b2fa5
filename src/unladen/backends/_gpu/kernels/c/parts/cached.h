#use bias stored
// Stores the products of few rows that are queries, keys and values: queries and keys rotated as
// `rope` does, keys and values in the cache as `kv_write` does. QUERIES, KEYS and VALUES are the
// numbers of these matrices from 1 on, or 0. TURNED: queries and keys are rotated.
typedef struct {
  u32 n_heads, block_tokens, k_numbers, k_row_bytes, v_numbers, v_row_bytes;
#if TURNED
  u32 n_rot, neox, first;
#end
} Params;

#bind struct Params params
#if QUERIES
#bind out float y
#end
#if KEYS
#bind out u32 keys
#end
#if VALUES
#bind out u32 values
#end
#if TURNED
#use turn
#end

// Row number `slot` of a workgroup's R rows of a matrix. Slots are rows in sequence, unless pairs
// that are rotated lie half a rotation apart: then slots 0 and 1 are neighbours in a first half,
// and slots 2 and 3 are their partners in the second half.
FN u32 row_of(ARGS, u32 which, u32 group, u32 slot) {
#if TURNED
  if (params.neox && which + 1u != VALUES) {
    // Wraps around before the first rotated row.
    const u32 d = group * R % params.k_numbers - params.first;
    if (d < params.n_rot) {
      return group * R - d / 2u + slot % 2u + slot / 2u * (params.n_rot / 2u);
    }
  }
#end
  return group * R + slot;
}

// The product in `slot` with row n of x.
FN float product(ARGS, u32 which, u32 group, u32 slot, u32 n) {
  return with_bias(args, which, total_of(args, slot, n), row_of(args, which, group, slot));
}

// The same, rotated; it is in row `row`.
FN float rotated(ARGS, u32 which, u32 group, u32 slot, u32 n, u32 row, u32 token) {
  const float own = product(args, which, group, slot, n);
#if TURNED
  const u32 d = row % params.k_numbers - params.first;
  if (which + 1u != VALUES && d < params.n_rot) {
    const Turn by = turn_of(args, token, d);
    const u32 other = slot ^ (params.neox ? 2u : 1u);
    return own * by.own + product(args, which, group, other, n) * by.partner;
  }
#end
  return own;
}

// The byte where numbers d and d + 1 of a head's row begin in the cache.
FN u32 place(ARGS, u32 token, u32 head, u32 row_bytes, u32 kind, u32 d) {
  const u32 slot = cache_slot(args, token, head, params.n_heads, params.block_tokens);
  return slot * row_bytes + d * (kind == F32 ? 4u : 2u);
}

// Stores what is in `slot` and in the next one, for row n of x, which is that of `token`.
FN void store_two(ARGS, u32 which, u32 group, u32 slot, u32 n, u32 token, u32 n_out) {
  const u32 row = row_of(args, which, group, slot);
  const float low = rotated(args, which, group, slot, n, row, token);
  const float high = rotated(args, which, group, slot + 1u, n, row + 1u, token);
#if QUERIES
  if (which + 1u == QUERIES) {
    y[token * n_out + row] = low;
    y[token * n_out + row + 1u] = high;
  }
#end
#if KEYS
  if (which + 1u == KEYS) {
    const u32 head = row / params.k_numbers, d = row % params.k_numbers;
    const u32 at = place(args, token, head, params.k_row_bytes, K_TYPE, d);
    if (K_TYPE == F32) {
      store_u32(keys, at, as_u32(low));
      store_u32(keys, at + 4u, as_u32(high));
    } else {
      store_u32(keys, at, stored_halves(low, high));
    }
  }
#end
#if VALUES
  if (which + 1u == VALUES) {
    const u32 head = row / params.v_numbers, d = row % params.v_numbers;
    const u32 at = place(args, token, head, params.v_row_bytes, V_TYPE, d);
    if (V_TYPE == F32) {
      store_u32(values, at, as_u32(low));
      store_u32(values, at + 4u, as_u32(high));
    } else {
      store_u32(values, at, stored_halves(low, high));
    }
  }
#end
}
