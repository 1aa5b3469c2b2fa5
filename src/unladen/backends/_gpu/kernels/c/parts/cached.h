#use bias stored
// Stores the products of few rows that are queries, keys and values: queries and keys rotated as
// `rope` does, keys and values in the cache as `kv_write` does. QUERIES, KEYS and VALUES are the
// numbers of these matrices from 1 on, or 0. TURNED: queries and keys are rotated. K_NUMBERS and
// V_NUMBERS: numbers in a row of keys and of values. BLOCK_TOKENS: rows in a block of the cache.
typedef struct {
  u32 n_heads, k_row_bytes, v_row_bytes;
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
    const u32 d = group * R % K_NUMBERS - params.first;
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

// Where the products in a slot and in the next one go: they are in rows `row` and row + 1; `block`
// and `inside` name a row of the cache. `low` and `high` are the cosine and the sine of each, if
// they are rotated.
typedef struct {
  u32 row, block, inside;
  int turns;
  f2 low, high;
} Goal;

// That of `slot` with the row of x of `token`. What it needs is loaded here, before the products
// are known; nothing but addresses is waited for.
FN Goal goal_of(ARGS, u32 which, u32 group, u32 slot, u32 token) {
  Goal to;
  to.row = row_of(args, which, group, slot);
  to.block = to.inside = 0u;
  to.turns = 0;
  to.low = to.high = F2(1.0f, 0.0f);
#if TURNED
  const u32 d = to.row % K_NUMBERS - params.first;
  to.turns = which + 1u != VALUES && d < params.n_rot;
  // What isn't rotated loads the factors of the first columns.
  const u32 low = turn_at(args, token, to.turns ? d : 0u);
  const u32 high = turn_at(args, token, to.turns ? d + 1u : 1u);
  to.low = F2(table[low], table[low + 1u]);
  to.high = F2(table[high], table[high + 1u]);
#end
  if (which + 1u != QUERIES) {
    const u32 p = (u32)batch(args, INDEX, token);
    const u32 seq = (u32)batch(args, SEQ_OF, token);
    to.block = cache_block(args, seq, FIRST_COLUMN, p, BLOCK_TOKENS);
    to.inside = p % BLOCK_TOKENS;
  }
  return to;
}

// The byte where a goal's numbers begin in the cache.
FN u32 place(ARGS, Goal to, u32 n_numbers, u32 row_bytes, u32 kind) {
  const u32 head = to.row / n_numbers, d = to.row % n_numbers;
  const u32 slot = (to.block * params.n_heads + head) * BLOCK_TOKENS + to.inside;
  return slot * row_bytes + d * (kind == F32 ? 4u : 2u);
}

#if TURNED
// The product in `slot` with row n of x, rotated.
FN float rotated(ARGS, u32 which, u32 group, u32 slot, u32 n, f2 turn) {
  const u32 other = slot ^ (params.neox ? 2u : 1u);
  return product(args, which, group, slot, n) * turn.x
         + product(args, which, group, other, n) * (other < slot ? turn.y : -turn.y);
}
#end

// Stores what is in `slot` and in the next one, for row n of x, which is that of `token`.
FN void store_two(ARGS, u32 which, u32 group, u32 slot, u32 n, u32 token, u32 n_out, Goal to) {
  float low = product(args, which, group, slot, n);
  float high = product(args, which, group, slot + 1u, n);
#if TURNED
  if (to.turns) {
    low = rotated(args, which, group, slot, n, to.low);
    high = rotated(args, which, group, slot + 1u, n, to.high);
  }
#end
#if QUERIES
  if (which + 1u == QUERIES) {
    y[token * n_out + to.row] = low;
    y[token * n_out + to.row + 1u] = high;
  }
#end
#if KEYS
  if (which + 1u == KEYS) {
    const u32 at = place(args, to, K_NUMBERS, params.k_row_bytes, K_TYPE);
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
    const u32 at = place(args, to, V_NUMBERS, params.v_row_bytes, V_TYPE);
    if (V_TYPE == F32) {
      store_u32(values, at, as_u32(low));
      store_u32(values, at + 4u, as_u32(high));
    } else {
      store_u32(values, at, stored_halves(low, high));
    }
  }
#end
}
