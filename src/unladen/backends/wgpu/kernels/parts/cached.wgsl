#use bias stored
// Stores the products of few rows that are queries, keys and values: queries and keys rotated as
// `rope` does, keys and values in the cache as `kv_write` does. QUERIES, KEYS and VALUES are the
// numbers of these matrices from 1 on, or 0. TURNED: queries and keys are rotated. K_NUMBERS and
// V_NUMBERS: numbers in a row of keys and of values. BLOCK_TOKENS: rows in a block of the cache.
struct Params {
  n_heads: u32,
  k_row_bytes: u32,
  v_row_bytes: u32,
#if TURNED
  n_rot: u32,
  neox: u32,
  first: u32,
#end
}

@group(1) @binding(14) var<uniform> params: Params;
#if QUERIES
@group(1) @binding(5) var<storage, read_write> y: array<f32>;
#end
#if KEYS
@group(1) @binding(15) var<storage, read_write> keys: array<u32>;
#end
#if VALUES
@group(1) @binding(16) var<storage, read_write> values: array<u32>;
#end
#if TURNED
@group(1) @binding(17) var<storage, read_write> table: array<f32>;
#use turn
#end

// Row number `slot` of a workgroup's R rows of a matrix. Slots are rows in sequence, unless pairs
// that are rotated lie half a rotation apart: then slots 0 and 1 are neighbours in a first half, and
// slots 2 and 3 are their partners in the second half.
fn row_of(group: u32, slot: u32) -> u32 {
#if TURNED
  if (params.neox != 0u && which + 1u != VALUES) {
    // Wraps around before the first rotated row.
    let d = group * R % K_NUMBERS - params.first;
    if (d < params.n_rot) {
      return group * R - d / 2u + slot % 2u + slot / 2u * (params.n_rot / 2u);
    }
  }
#end
  return group * R + slot;
}

// The product in `slot` with row n of x.
fn product(group: u32, slot: u32, n: u32) -> f32 {
  return with_bias(totals[slot * NT + n], row_of(group, slot));
}

// The same, rotated; it is in row `row`.
fn rotated(group: u32, slot: u32, n: u32, row: u32, token: u32) -> f32 {
  let own = product(group, slot, n);
#if TURNED
  let d = row % K_NUMBERS - params.first;
  if (which + 1u != VALUES && d < params.n_rot) {
    let by = turn(token, d);
    let other = slot ^ select(1u, 2u, params.neox != 0u);
    return own * by.own + product(group, other, n) * by.partner;
  }
#end
  return own;
}

// The word where numbers d and d + 1 of a head's row begin in the cache.
fn place(token: u32, head: u32, row_bytes: u32, kind: u32, d: u32) -> u32 {
  let slot = cache_slot(token, head, params.n_heads, BLOCK_TOKENS);
  return (slot * row_bytes + d * select(2u, 4u, kind == F32)) / 4u;
}

// Stores what is in `slot` and in the next one, for row n of x, which is that of `token`.
fn store_two(group: u32, slot: u32, n: u32, token: u32) {
  let row = row_of(group, slot);
  let low = rotated(group, slot, n, row, token);
  let high = rotated(group, slot + 1u, n, row + 1u, token);
#if QUERIES
  if (which + 1u == QUERIES) {
    y[token * m.n_out + row] = low;
    y[token * m.n_out + row + 1u] = high;
  }
#end
#if KEYS
  if (which + 1u == KEYS) {
    let at = place(token, row / K_NUMBERS, params.k_row_bytes, K_TYPE, row % K_NUMBERS);
    if (K_TYPE == F32) {
      keys[at] = bitcast<u32>(low);
      keys[at + 1u] = bitcast<u32>(high);
    } else {
      keys[at] = stored_halves(low, high);
    }
  }
#end
#if VALUES
  if (which + 1u == VALUES) {
    let at = place(token, row / V_NUMBERS, params.v_row_bytes, V_TYPE, row % V_NUMBERS);
    if (V_TYPE == F32) {
      values[at] = bitcast<u32>(low);
      values[at + 1u] = bitcast<u32>(high);
    } else {
      values[at] = stored_halves(low, high);
    }
  }
#end
}
