#use step matrix result
// y = x w^T (+ bias) for many rows of x that `quantize` rounded to int8, and weights that are int8
// codes times a scale. 256 threads compute TM rows of w by TN rows of x, each thread every 16th row
// of both. A tile holds one group of each row: two runs of 16 columns with a scale each.
#bind in u4 x_codes
#bind in f2 x_scales

#define RM (TM / 16u)
#define RN (TN / 16u)

// The first runs of all rows, then the second ones.
#shared u4 w_tile (2u * TM)
#shared u4 x_tile (2u * TN)
// For a run of w: the factor of its codes, and what is added to each.
#shared f2 w_scale (2u * TM)
// For a run of x: the factor of its codes, and the sum of its columns.
#shared f2 x_scale (2u * TN)

FN int dot_run(u4 a, u4 b) {
  return dot_i8(a.x, b.x, dot_i8(a.y, b.y, dot_i8(a.z, b.z, dot_i8(a.w, b.w, 0))));
}

FN void fill(ARGS, u32 row, u32 first, u32 token, u32 count, u32 block, u32 u) {
  if (row < TM) {
    const u32 at = min_u32(first + row, m.n_rows - 1u) * m.row_bytes + block * BLOCK_BYTES;
    u2 c[GROUP];
    packed_group(args, w, at, u, c);
    const f4 s = scales(args, w, at, u);
    w_tile[row] = U4(c[0].x, c[1].x, c[2].x, c[3].x);
    w_tile[TM + row] = U4(c[0].y, c[1].y, c[2].y, c[3].y);
    w_scale[row] = F2(s.x, s.y);
    w_scale[TM + row] = F2(s.z, s.w);
  } else {
    const u32 t = row - TM;
    const u32 column = min_u32(token + t, count - 1u) * m.n_in + block * BLOCK + unit_at(u);
    x_tile[t] = x_codes[column / 16u];
    x_tile[TN + t] = x_codes[column / 16u + SPAN / 16u];
    x_scale[t] = x_scales[column / 16u];
    x_scale[TN + t] = x_scales[column / 16u + SPAN / 16u];
  }
}

FN void multiply(ARGS, u32 part, PRIVATE float *acc) {
  const u32 i = LANE % 16u;
  const u32 j = LANE / 16u;
  u4 b[RN];
  f2 s[RN];
  for (u32 n = 0u; n < RN; n++) {
    b[n] = x_tile[part * TN + j + 16u * n];
    s[n] = x_scale[part * TN + j + 16u * n];
  }
  for (u32 r = 0u; r < RM; r++) {
    const u4 a = w_tile[part * TM + i + 16u * r];
    const f2 scale = w_scale[part * TM + i + 16u * r];
    for (u32 n = 0u; n < RN; n++) {
      float sum = acc[r * RN + n];
      sum = fma_f32(scale.x * s[n].x, (float)dot_run(a, b[n]), sum);
      if (SHIFTED) sum = fma_f32(scale.y, s[n].y, sum);
      acc[r * RN + n] = sum;
    }
  }
}

KERNEL(matmul_coded) {
  const u32 per_block = BLOCK / 8u / GROUP;
  const u32 first = (GROUP_X + GROUP_Y * N_GROUPS_X) * TM;
  const u32 token = GROUP_Z * TN;
  const u32 count = n_rows(args, ROW_KIND);
  const u32 n_groups = m.n_in / BLOCK * per_block;
  float acc[RM * RN];
  for (u32 o = 0u; o < RM * RN; o++) acc[o] = 0.0f;
  for (u32 g = 0u; g < n_groups; g++) {
    for (u32 row = LANE; row < TM + TN; row += WG) {
      fill(args, row, first, token, count, g / per_block, g % per_block * GROUP);
    }
    BARRIER();
    for (u32 part = 0u; part < 2u; part++) multiply(args, part, acc);
    BARRIER();
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
