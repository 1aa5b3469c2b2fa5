#use warp_tile
// Products of TM rows of w, which are tiles, with TN neighbouring rows of x, on sm_90a: four warps
// multiply 64 rows with all of x. Rows of x come by bulk copies, STAGES ahead; a turn takes 64
// columns of one of their PARTS. In memory, eight columns of all rows are one after another. The
// words of the next columns of w are decoded while matrix units multiply.
#bind in u32 x_columns
#shared u4 x_tile (STAGES * 8u * TN)
// The phases of a stage: its columns are there, and all warps have multiplied them.
#shared u2 filled STAGES
#shared u2 used STAGES

// Begins to copy a turn's columns of the rows from `token` on; x has n_each rows.
FN void fetch(ARGS, u32 turn, u32 token, u32 n_each) {
  const u32 stage = turn % STAGES;
  expect_bytes(filled, stage, 128u * TN);
  for (u32 eighth = 0u; eighth < 8u; eighth++) {
    const u32 column = turn % PARTS * m.n_in + run_column(turn / PARTS, eighth / 2u)
                       + 8u * (eighth % 2u);
    copy_in_bulk(x_tile, (8u * stage + eighth) * TN, x_columns,
                 16u * (column / 8u * n_each + token), 16u * TN, filled, stage);
  }
}

// Begins the first turns.
FN void start(ARGS, u32 n_turns, u32 token, u32 n_each) {
  for (u32 stage = 0u; stage < STAGES; stage++) {
    begin_arrivals(filled, stage, 1u);
    begin_arrivals(used, stage, WG / 32u);
  }
  show_arrivals();
  for (u32 turn = 0u; turn < min_u32(STAGES, n_turns); turn++) fetch(args, turn, token, n_each);
}

// Fills the stage of the turn before `turn` anew, once all warps have used it.
FN void go_on(ARGS, u32 turn, u32 n_turns, u32 token, u32 n_each) {
  if (turn == 0u || turn - 1u + STAGES >= n_turns) return;
  const u32 last = turn - 1u;
  wait_for_arrivals(used, last % STAGES, last / STAGES % 2u);
  fetch(args, last + STAGES, token, n_each);
}

// Adds a slice's products of `a`, this warp's words of the slice, and decodes those of the next
// slice to `next` meanwhile.
FN void add_slice(ARGS, Bytes b, u32 slice, u32 band, u32 token, u32 n_each, PRIVATE const u32 *a,
                  PRIVATE u32 *next, PRIVATE float *acc) {
  const u32 n_slices = m.n_in / 64u;
  UNROLL for (u32 part = 0u; part < PARTS; part++) {
    const u32 turn = PARTS * slice + part, stage = turn % STAGES;
    if (LANE == 0u) go_on(args, turn, PARTS * n_slices, token, n_each);
    wait_for_arrivals(filled, stage, turn / STAGES % 2u);
    sync_warp();
    wgmma_begin(TN, acc);
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      const Descriptor x = matrix_descriptor(x_tile, (8u * stage + 2u * run) * TN, 16u * TN, 128u);
      wgmma_part(TN, acc, a + 4u * run, x_tile, x);
    }
    wgmma_commit();
    if (part + 1u == PARTS) {
      fragments(args, b, min_u32(slice + 1u, n_slices - 1u), band, next);
    }
    wgmma_wait(TN, acc, 16u, a);
    sync_warp();
    if (IN_SUBGROUP == 0u) arrive_at(used, stage);
  }
}

// acc[4 n + i] is number i of the product of this warp's band with the n-th eight rows of x: see
// mma_f16. `bands`: where the band begins in bytes of b. x_rows must be set.
FN void multiply_tiles(ARGS, Bytes b, PRIVATE const u32 *bands, PRIVATE float *acc) {
  const u32 n_slices = m.n_in / 64u, token = x_rows[0];
  const u32 n_each = (n_rows(args, ROW_KIND) + PADDED - 1u) / PADDED * PADDED;
  u32 even[16], odd[16];
  if (LANE == 0u) start(args, PARTS * n_slices, token, n_each);
  for (u32 o = 0u; o < TN / 2u; o++) acc[o] = 0.0f;
  fragments(args, b, 0u, bands[0], even);
  BARRIER();
  NO_UNROLL for (u32 slice = 0u; slice < n_slices; slice += 2u) {
    add_slice(args, b, slice, bands[0], token, n_each, even, odd, acc);
    if (slice + 1u == n_slices) break;
    add_slice(args, b, slice + 1u, bands[0], token, n_each, odd, even, acc);
  }
  scale_sums(args, acc);
}
