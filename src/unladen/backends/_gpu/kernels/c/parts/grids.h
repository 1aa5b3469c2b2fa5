// Codebooks of the IQ formats: entries of 4 or 8 signed bytes, which the argument `grid` holds.

// The signs that bits k .. k + 3 of `bits` stand for.
FN f4 signs(u32 bits, u32 k) { return 1.0f - 2.0f * four_bits(bits, k); }

// Seven sign bits, and an eighth that makes the number of minus signs even.
FN u32 even_signs(u32 code) { return code | ((ones_of(code) & 1u) << 7); }

// Entry i of eight values, with the signs that the eight bits of `bits` stand for.
FN Codes entry8(ARGS, u32 i, u32 bits) {
  Codes c;
  c.lo = f4_signed(grid[2u * i]) * signs(bits, 0u);
  c.hi = f4_signed(grid[2u * i + 1u]) * signs(bits, 4u);
  return c;
}

// Entries i and j of four values.
FN Codes entries4(ARGS, u32 i, u32 j, u32 bits) {
  Codes c;
  c.lo = f4_signed(grid[i]) * signs(bits, 0u);
  c.hi = f4_signed(grid[j]) * signs(bits, 4u);
  return c;
}
