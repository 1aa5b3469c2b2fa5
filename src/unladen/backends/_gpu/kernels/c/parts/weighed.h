#use matrix
// The weights of unit u of block `block` of a row of n_in columns, which begins at byte `row`.
FN Codes weighed(ARGS, Bytes b, u32 row, u32 block, u32 u, u32 n_in) {
  const f4 scale = scales(args, b, row + block * BLOCK_BYTES, u);
  Codes c = row_codes(args, b, row, block, u, n_in);
  c.lo = c.lo * scale.x;
  c.hi = c.hi * scale.z;
  if (SHIFTED) {
    c.lo = c.lo + scale.y;
    c.hi = c.hi + scale.w;
  }
  return c;
}
