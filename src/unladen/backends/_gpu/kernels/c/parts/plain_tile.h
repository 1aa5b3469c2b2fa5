#use weighed
// Tiles of float32.
#shared f4 w_tile 512
#shared f4 x_tile 512

FN u32 place(u32 row, u32 four);

// A thread fills row LANE / 4 of both tiles. That row begins at byte `w_row` of b and at element
// `x_row` of x.
FN void multiply(ARGS, Bytes b, u32 w_row, u32 x_row, PRIVATE float *acc) {
  const u32 units = BLOCK / 8u;
  const u32 row = LANE / 4u, four = 2u * (LANE % 4u), i = LANE % 16u, j = LANE / 16u;
  const u32 n_units = (m.n_in + BLOCK - 1u) / BLOCK * units;
  for (u32 next = 0u; next < n_units; next += 4u) {
    const u32 each = next + LANE % 4u;
    const u32 u = each % units, block = each / units;
    const u32 p = block * BLOCK + unit_at(u);
    const Codes c = weighed(args, b, w_row, block, u, m.n_in);
    w_tile[place(row, four)] = c.lo;
    w_tile[place(row, four + 1u)] = c.hi;
    x_tile[place(row, four)] = columns(args, m.n_in, x_row, p);
    x_tile[place(row, four + 1u)] = columns(args, m.n_in, x_row, p + SPAN);
    BARRIER();
    for (u32 k = 0u; k < 8u; k++) {
      f4 other[4];
      for (u32 n = 0u; n < 4u; n++) other[n] = x_tile[place(j + 16u * n, k)];
      for (u32 r = 0u; r < 4u; r++) {
        const f4 own = w_tile[place(i + 16u * r, k)];
        for (u32 n = 0u; n < 4u; n++) acc[4u * r + n] += f4_dot(own, other[n]);
      }
    }
    BARRIER();
  }
}
