#use step weighed columns result
// y = x w^T (+ bias) for many rows of x. 256 threads compute TM rows of w by TN rows of x, each
// thread every 16th row of both. They decode sixteen columns (two units of a row) into one tile
// while they use the other. The order of columns doesn't matter, if it is the same for w and x.
#define RM (TM / 16u)
#define RN (TN / 16u)
#shared f4 w_tile (BUFFERS * TM * 4u)
#shared f4 x_tile (BUFFERS * TN * 4u)

// Where four columns of a row of a tile lie: neither eight rows that are read together nor two
// units that are written together share a bank.
FN u32 place(u32 row, u32 four) { return row * 4u + (four ^ ((row >> 1) & 3u)); }

FN void fill(ARGS, u32 first, u32 token, u32 count, u32 next, u32 buffer) {
  const u32 units = BLOCK / 8u;
  const u32 unit = next + LANE % 2u;
  const u32 u = unit % units;
  const u32 block = unit / units;
  const u32 four = 2u * (LANE % 2u);
  const u32 p = block * BLOCK + unit_at(u);
  for (u32 row = LANE / 2u; row < TM; row += 128u) {
    const u32 at = min_u32(first + row, m.n_rows - 1u) * m.row_bytes;
    const Codes c = weighed(args, w, at, block, u, m.n_in);
    w_tile[buffer * TM * 4u + place(row, four)] = c.lo;
    w_tile[buffer * TM * 4u + place(row, four + 1u)] = c.hi;
  }
  for (u32 row = LANE / 2u; row < TN; row += 128u) {
    const u32 at = min_u32(token + row, count - 1u) * m.n_in;
    x_tile[buffer * TN * 4u + place(row, four)] = columns(args, m.n_in, at, p);
    x_tile[buffer * TN * 4u + place(row, four + 1u)] = columns(args, m.n_in, at, p + SPAN);
  }
}

// acc[r * RN + n] += four columns of row i + 16 r of the tile of w times row j + 16 n of that of x.
FN void multiply(ARGS, u32 buffer, u32 k, PRIVATE float *acc) {
  const u32 i = LANE % 16u;
  const u32 j = LANE / 16u;
  f4 b[RN];
  for (u32 n = 0u; n < RN; n++) b[n] = x_tile[buffer * TN * 4u + place(j + 16u * n, k)];
  for (u32 r = 0u; r < RM; r++) {
    const f4 a = w_tile[buffer * TM * 4u + place(i + 16u * r, k)];
    for (u32 n = 0u; n < RN; n++) {
      float s = fma_f32(a.x, b[n].x, acc[r * RN + n]);
      s = fma_f32(a.y, b[n].y, s);
      s = fma_f32(a.z, b[n].z, s);
      acc[r * RN + n] = fma_f32(a.w, b[n].w, s);
    }
  }
}

KERNEL(matmul) {
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * TM;
  const u32 token = GROUP_Z * TN;
  const u32 count = n_rows(args, ROW_KIND);
  const u32 n_units = (m.n_in + BLOCK - 1u) / BLOCK * (BLOCK / 8u);
  float acc[RM * RN];
  for (u32 o = 0u; o < RM * RN; o++) acc[o] = 0.0f;
  fill(args, first, token, count, 0u, 0u);
  for (u32 next = 0u; next < n_units; next += 2u) {
    const u32 buffer = next / 2u % BUFFERS;
    BARRIER();
#if DOUBLE
    if (next + 2u < n_units) fill(args, first, token, count, next + 2u, 1u - buffer);
#end
    for (u32 k = 0u; k < 4u; k++) multiply(args, buffer, k, acc);
#if DOUBLE
#else
    BARRIER();
    if (next + 2u < n_units) fill(args, first, token, count, next + 2u, 0u);
#end
  }
  for (u32 r = 0u; r < RM; r++) {
    const u32 row = first + LANE % 16u + 16u * r;
    for (u32 n = 0u; n < RN; n++) {
      const u32 t = token + LANE / 16u + 16u * n;
      if (row < m.n_rows && t < count) {
        const u32 all_row = m.first_row + row;
        store(args, 0u, with_bias(args, 0u, acc[r * RN + n], all_row), t * m.n_out + all_row);
      }
    }
  }
}
