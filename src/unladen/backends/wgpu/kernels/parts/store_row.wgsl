// Stores numbers of a row of keys or of values in the cache. The kernel defines `number`, number i
// of all keys or of all values, and binds `keys` and `values`. Rows of Q8_0 may share a word with
// their neighbours, so halves of words are changed one by one.

var<private> is_value: bool;

fn at_once(kind: u32) -> u32 {
  return select(2u, 32u, kind == Q8_0);
}

fn store_word(at: u32, bits: u32) {
  if (is_value) { atomicStore(&values[at >> 2u], bits); } else { atomicStore(&keys[at >> 2u], bits); }
}

fn store_half(at: u32, bits: u32) {
  let shift = (at & 2u) * 8u;
  if (is_value) {
    atomicAnd(&values[at >> 2u], ~(0xffffu << shift));
    atomicOr(&values[at >> 2u], bits << shift);
  } else {
    atomicAnd(&keys[at >> 2u], ~(0xffffu << shift));
    atomicOr(&keys[at >> 2u], bits << shift);
  }
}

fn code(x: f32, inverse: f32) -> u32 {
  // Rounds to the nearest, ties away from zero.
  let scaled = x * inverse;
  let size = abs(scaled);
  let whole = floor(size);
  let q = whole + select(0.0, 1.0, size - whole >= 0.5);
  return bitcast<u32>(i32(select(q, -q, scaled < 0.0))) & 255u;
}

// Whether float16 can't hold a key. Its value is then stored as NaN, which spoils every sum; a key
// that is NaN might be overlooked.
fn is_beyond(key: f32) -> bool {
  let part = key / select(1.0, 127.0, K_TYPE == Q8_0);
  return K_TYPE != F32 && (bitcast<u32>(part) & 0x7fffffffu) >= 0x477ff000u;
}

// Stores NaN as the first number of the values' row at byte `at`.
fn spoil(at: u32) {
  if (V_TYPE == F32) { store_word(at, 0x7fc00000u); } else { store_half(at, 0x7e00u); }
}

fn store_block(to: u32, i: u32) {
  var largest = 0.0;
  for (var j = 0u; j < 32u; j++) { largest = max(largest, abs(number(i + j))); }
  let d32 = largest / 127.0;
  let inverse = select(0.0, 1.0 / d32, d32 >= 1.1754944e-38);
  store_half(to, stored_half(d32));
  for (var j = 0u; j < 32u; j += 2u) {
    store_half(to + 2u + j, code(number(i + j), inverse) | (code(number(i + j + 1u), inverse) << 8u));
  }
}

// Stores numbers d .. of a row that begins at byte `at`; `place` is the place of number d.
fn store_numbers(kind: u32, at: u32, d: u32, place: u32) {
  if (kind == F32) {
    store_word(at + 4u * d, bitcast<u32>(number(place)));
    store_word(at + 4u * d + 4u, bitcast<u32>(number(place + 1u)));
  } else if (kind == F16) {
    store_word(at + 2u * d, stored_halves(number(place), number(place + 1u)));
  } else {
    store_block(at + d / 32u * 34u, place);
  }
}
