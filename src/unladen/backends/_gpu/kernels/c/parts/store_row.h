// Stores numbers of a row of keys or of values in the cache. The kernel defines `number`, number i
// of all keys or of all values, and binds `keys` and `values`.

// The numbers that a thread stores in a cache of this kind.
FN u32 at_once(u32 kind) { return kind == Q8_0 ? 32u : 2u; }

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

// Whether float16 can't hold a key. Its value is then stored as NaN, which spoils every sum; a key
// that is NaN might be overlooked.
FN int is_beyond(float key) {
  const float part = key / (K_TYPE == Q8_0 ? 127.0f : 1.0f);
  return K_TYPE != F32 && (as_u32(part) & 0x7fffffffu) >= 0x477ff000u;
}

// Stores NaN as the first number of the values' row at byte `at`; `from` is the place of that
// number. It stores the type that the number was stored by, so that compilers keep the order.
FN void spoil(ARGS, u32 at, u32 from) {
  if (V_TYPE == F32) {
    put_word(args, 1, at, 0x7fc00000u);
  } else if (V_TYPE == F16) {
    const u32 two = stored_halves(number(args, 1, from), number(args, 1, from + 1u));
    put_word(args, 1, at, (two & 0xffff0000u) | 0x7e00u);
  } else {
    put_half(args, 1, at, 0x7e00u);
  }
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
