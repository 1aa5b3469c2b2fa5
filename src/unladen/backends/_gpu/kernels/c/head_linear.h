#use step dot_rows
// Multiplies the first columns of each head with that head's matrix, and copies the others. A head
// takes each_head workgroups, and the m.n_rows heads of a token follow each other.
typedef struct {
  u32 n_heads, width, first_head;
} Heads;

#bind out float y
#bind struct Heads heads

// Element `at` of x.
FN float element_of(ARGS, u32 at) {
#if RAGGED
  return x[at];
#else
  const f4 four = x[at >> 2];
  const u32 i = at & 3u;
  return i == 0u ? four.x : i == 1u ? four.y : i == 2u ? four.z : four.w;
#end
}

KERNEL(head_linear) {
  const u32 each_head = (m.n_out + R - 1u) / R, group = GROUP_X + GROUP_Y * N_GROUPS_X;
  const u32 first = group % each_head * R, head = group / each_head % m.n_rows;
  const u32 t = min_u32(group / each_head / m.n_rows, n_rows(args, ROW_KIND) - 1u);
  const u32 pair = t * heads.n_heads + heads.first_head + head;
  const u32 rest = heads.width - m.n_in;
  u32 rows[R], xs[NT];
  float partial[ALL_OUT];
  for (u32 r = 0u; r < R; r++) {
    rows[r] = (head * m.n_out + min_u32(first + r, m.n_out - 1u)) * m.row_bytes;
  }
  for (u32 n = 0u; n < NT; n++) xs[n] = pair * heads.width;
  for (u32 o = 0u; o < ALL_OUT; o++) partial[o] = 0.0f;
  accumulate(args, matrix_bytes(args, 0u), m.n_in, rows, xs, partial);
  finish(args, partial);
  const u32 to = pair * (m.n_out + rest);
  if (LANE < OUT && first + LANE < m.n_out) y[to + first + LANE] = totals[LANE];
  if (first == 0u) {
    for (u32 i = LANE; i < rest; i += WG) {
      y[to + m.n_out + i] = element_of(args, pair * heads.width + m.n_in + i);
    }
  }
}
