// Keys: whole numbers in the order of the float32 numbers that they stand for.
#define INFINITE 0xff800000u
#define MINUS_INFINITE 0x007fffffu
// Comes after every (key, place).
#define NOTHING U2(0u, 0xffffffffu)

// A larger number has a larger key; -0 is 0, and NaN is +inf.
FN u32 key_of(u32 bits) {
  const u32 size = bits & 0x7fffffffu;
  if (size == 0u) return 0x80000000u;
  if (size > 0x7f800000u) return INFINITE;
  return bits > 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The number with this key.
FN u32 bits_of(u32 key) { return key >= 0x80000000u ? key & 0x7fffffffu : ~key; }

// Whether (key, place) a comes before b: the larger key, of equal ones the first place.
FN int is_before(u2 a, u2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }
