// For formats whose weights are int8 codes times a scale: `packed` returns a unit's codes as two
// words of four.

FN u2 packed(ARGS, Bytes b, u32 at, u32 u);

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u2 p = packed(args, b, at, u);
  Codes c;
  c.lo = f4_signed(p.x);
  c.hi = f4_signed(p.y);
  return c;
}

// Each byte of a minus that of b; all are below 128.
FN u32 minus_each(u32 a, u32 b) { return ((a | 0x80808080u) - b) ^ 0x80808080u; }

FN u4 minus_each4(u4 a, u32 b) {
  return U4(minus_each(a.x, b), minus_each(a.y, b), minus_each(a.z, b), minus_each(a.w, b));
}

// Four codes, each less ZERO, which is what a format's codes have for 0. With ZERO_LATER it isn't
// taken from codes: sums of their products with four numbers of x begin with zero_sum of these.
#ifndef ZERO
#define ZERO 0u
#endif

FN u32 less_zero(u32 codes) {
#ifdef ZERO_LATER
  return codes;
#endif
#ifndef ZERO_LATER
  return minus_each(codes, ZERO * 0x01010101u);
#endif
}

FN int zero_sum(u32 x, int sum) {
  return ZERO > 0u ? dot_i8((256u - ZERO) * 0x01010101u, x, sum) : sum;
}

// Bits k .. k + 3 of `bits`, one in each byte.
FN u32 spread(u32 bits, u32 k) { return (((bits >> k) & 15u) * 0x00204081u) & 0x01010101u; }

// Four units of a group from their first and their second words.
FN void store_group(u4 lo, u4 hi, PRIVATE u2 *out) {
  out[0] = U2(lo.x, hi.x);
  out[1] = U2(lo.y, hi.y);
  out[2] = U2(lo.z, hi.z);
  out[3] = U2(lo.w, hi.w);
}
