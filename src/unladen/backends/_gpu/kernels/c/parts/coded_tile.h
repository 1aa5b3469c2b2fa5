#use rounding
// Tiles of int8 codes; sums of products are scaled at the end. Codes of w are those of the file. x
// is rounded with a scale for 32 columns, within half of 1 / 127 of the largest of them.
#shared u32 w_tile 512
#shared u32 x_tile 512
// The `scales` of the group of each row of w.
#shared f4 w_scale TILE
// For each thread's columns of x: the largest size, and the sums of lo and of hi.
#shared f4 found WG
// For each row of x: its scale, and the sums of all lo and of all hi.
#shared f4 x_scale TILE

FN u32 place(u32 row, u32 four);

// Fills the tiles with four units of each row: this thread's unit is u of block `block`.
FN void fill(ARGS, Bytes b, u32 w_row, u32 x_row, u32 block, u32 u) {
  const u32 row = LANE / 4u, four = 2u * (LANE % 4u);
  const u32 at = w_row + block * BLOCK_BYTES, p = block * BLOCK + unit_at(u);
  const f4 lo = columns(args, m.n_in, x_row, p), hi = columns(args, m.n_in, x_row, p + SPAN);
  found[LANE] = F4(larger(largest_of(lo), largest_of(hi)), f4_dot(lo, F4_ALL(1.0f)),
                   f4_dot(hi, F4_ALL(1.0f)), 0.0f);
  const u2 c = packed(args, b, at, u);
  BARRIER();
  f4 all = found[LANE & ~3u];
  for (u32 k = 1u; k < 4u; k++) {
    const f4 other = found[(LANE & ~3u) + k];
    all = F4(larger(all.x, other.x), all.y + other.y, all.z + other.z, 0.0f);
  }
  const float inverse = inverse_scale(all.x);
  w_tile[place(row, four)] = c.x;
  w_tile[place(row, four + 1u)] = c.y;
  x_tile[place(row, four)] = rounded(lo, inverse);
  x_tile[place(row, four + 1u)] = rounded(hi, inverse);
  if (LANE % 4u == 0u) {
    w_scale[row] = scales(args, b, at, u);
    x_scale[row] = F4(scale_of(all.x), all.y, all.z, 0.0f);
  }
}

// Adds the products of the first (part 0) or the second four columns of each unit.
FN void add_part(ARGS, u32 part, PRIVATE float *acc) {
  const u32 i = LANE % 16u, j = LANE / 16u;
  int sum[16];
  for (u32 o = 0u; o < 16u; o++) sum[o] = 0;
  for (u32 k = part; k < 8u; k += 2u) {
    u32 other[4];
    for (u32 n = 0u; n < 4u; n++) other[n] = x_tile[place(j + 16u * n, k)];
    for (u32 r = 0u; r < 4u; r++) {
      const u32 own = w_tile[place(i + 16u * r, k)];
      for (u32 n = 0u; n < 4u; n++) sum[4u * r + n] = dot_i8(own, other[n], sum[4u * r + n]);
    }
  }
  for (u32 r = 0u; r < 4u; r++) {
    const f4 s = w_scale[i + 16u * r];
    const float factor = part == 0u ? s.x : s.z, shift = part == 0u ? s.y : s.w;
    for (u32 n = 0u; n < 4u; n++) {
      const f4 t = x_scale[j + 16u * n];
      acc[4u * r + n] += factor * t.x * (float)sum[4u * r + n];
      if (SHIFTED) acc[4u * r + n] += shift * (part == 0u ? t.y : t.z);
    }
  }
}

// A thread fills row LANE / 4 of both tiles. That row begins at byte `w_row` of b and at element
// `x_row` of x. The barrier in `fill` keeps the tiles until all threads have read them.
FN void multiply(ARGS, Bytes b, u32 w_row, u32 x_row, PRIVATE float *acc) {
  const u32 units = BLOCK / 8u;
  const u32 n_units = m.n_in / BLOCK * units;
  for (u32 next = 0u; next < n_units; next += 4u) {
    const u32 each = next + LANE % 4u;
    fill(args, b, w_row, x_row, each / units, each % units);
    BARRIER();
    for (u32 part = 0u; part < 2u; part++) add_part(args, part, acc);
  }
}
