// Keys: whole numbers in the order of the float32 numbers that they stand for.

// A larger number has a larger key; -0 is 0, and NaN is +inf.
fn key_of(bits: u32) -> u32 {
  let size = bits & 0x7fffffffu;
  if (size == 0u) { return 0x80000000u; }
  if (size > 0x7f800000u) { return 0xff800000u; }
  return select(bits | 0x80000000u, ~bits, bits > 0x80000000u);
}

// The number with this key.
fn bits_of(key: u32) -> u32 {
  return select(~key, key & 0x7fffffffu, key >= 0x80000000u);
}

const INFINITE = 0xff800000u;
const MINUS_INFINITE = 0x007fffffu;

// Comes after every (key, place).
const NOTHING = vec2u(0u, 0xffffffffu);

// Whether (key, place) a comes before b: the larger key, of equal ones the first place.
fn is_before(a: vec2u, b: vec2u) -> bool {
  return a.x > b.x || (a.x == b.x && a.y < b.y);
}
