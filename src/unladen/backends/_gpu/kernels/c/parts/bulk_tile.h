#use warp_tile
// Products of TM rows of w, which are tiles, with TN neighbouring rows of x, on sm_90a: four warps
// multiply 64 rows with all of x. Rows of x come by bulk copies, STAGES ahead; a turn takes 64
// columns of one of their PARTS, in the order that split_rows gives them.
//
// A turn's products are under way until those of the next one have begun. Meanwhile the words of
// the next slice of w are decoded; they were loaded a slice before. A stage is filled anew BEHIND
// turns after its own, so that warps may be late before anything waits for them. BEHIND is at least
// 2: products of the turn before are still under way.
#define BEHIND (STAGES / 2u)
#bind in u32 x_columns
#launched x_tile STAGES * 8u * TN
// The phases of a stage: its columns are there, and all warps have multiplied them.
#shared u2 filled STAGES
#shared u2 used STAGES

// Runs of 16 columns that one copy brings: neighbours lie together where the tile has PADDED rows.
#if PLAIN
#define COPIED (TN == PADDED ? 4u : 1u)
#else
#define COPIED (TN == PADDED ? (SPAN <= 32u ? 4u : 2u) : 1u)
#end

// Begins to copy a turn's columns of the rows of x that begin at byte x_at.
FN void fetch(ARGS, u32 turn, u32 x_at) {
  const u32 stage = turn % STAGES, first = x_at + 2u * PADDED * (turn % PARTS * m.n_in);
  expect_bytes(filled, stage, 128u * TN);
  UNROLL for (u32 run = 0u; run < 4u; run += COPIED) {
    copy_in_bulk(x_tile, (8u * stage + 2u * run) * TN, x_columns,
                 first + 2u * PADDED * run_column(turn / PARTS, run), 32u * TN * COPIED, filled,
                 stage);
  }
}

// Begins the first turns.
FN void start(ARGS, u32 n_turns, u32 x_at) {
  for (u32 stage = 0u; stage < STAGES; stage++) {
    begin_arrivals(filled, stage, 1u);
    begin_arrivals(used, stage, WG / 32u);
  }
  show_arrivals();
  for (u32 turn = 0u; turn < min_u32(STAGES, n_turns); turn++) fetch(args, turn, x_at);
}

// Fills the stage of the turn BEHIND `turn` anew, once all warps have used it.
FN void go_on(ARGS, u32 turn, u32 n_turns, u32 x_at) {
  if (turn < BEHIND || turn - BEHIND + STAGES >= n_turns) return;
  const u32 last = turn - BEHIND;
  wait_for_arrivals(used, last % STAGES, last / STAGES % 2u);
  fetch(args, last + STAGES, x_at);
}

// Begins to add a slice's products of `a`, this warp's words of the slice, and ends those of the
// slice before, whose words `next` has. Then decodes `raw` to `next`, the words of the next slice,
// and loads what comes after that.
FN void add_slice(ARGS, Bytes b, u32 slice, u32 band, u32 x_at, PRIVATE const u32 *a,
                  PRIVATE u32 *next, PRIVATE Raw *raw, PRIVATE float *acc) {
  const u32 n_slices = m.n_in / 64u;
  UNROLL for (u32 part = 0u; part < PARTS; part++) {
    const u32 turn = PARTS * slice + part, stage = turn % STAGES;
    if (LANE == 0u) go_on(args, turn, PARTS * n_slices, x_at);
    wait_for_arrivals(filled, stage, turn / STAGES % 2u);
    sync_warp();
    wgmma_begin_more(16u, a);
    UNROLL for (u32 run = 0u; run < 4u; run++) {
      const Descriptor x = matrix_descriptor(x_tile, (8u * stage + 2u * run) * TN, 128u, 256u);
      wgmma_part(TN, acc, a + 4u * run, x_tile, x);
    }
    wgmma_commit();
    wgmma_wait_but(1u, 16u, next);
    sync_warp();
    if (IN_SUBGROUP == 0u && turn > 0u) arrive_at(used, (turn - 1u) % STAGES);
  }
  fragments(args, b, min_u32(slice + 1u, n_slices - 1u), band, raw, next);
  // No sooner: registers hold one slice that isn't decoded.
  load_raw(args, b, min_u32(slice + 2u, n_slices - 1u), value_after(16u, next, band), raw);
}

// acc[4 n + i] is number i of the product of this warp's band with the n-th eight rows of x: see
// mma_f16. `bands`: where the band begins in bytes of b. x_rows must be set.
FN void multiply_tiles(ARGS, Bytes b, PRIVATE const u32 *bands, PRIVATE float *acc) {
  const u32 n_slices = m.n_in / 64u, token = x_rows[0];
  const u32 x_at = 2u * PADDED * PARTS * m.n_in * (token / PADDED) + 32u * (token % PADDED);
  u32 words[32];
  Raw raw;
  if (LANE == 0u) start(args, PARTS * n_slices, x_at);
  for (u32 o = 0u; o < TN / 2u; o++) acc[o] = 0.0f;
  load_raw(args, b, 0u, bands[0], &raw);
  fragments(args, b, 0u, bands[0], &raw, words);
  UNROLL for (u32 i = 0u; i < 16u; i++) words[16u + i] = 0u;
  load_raw(args, b, min_u32(1u, n_slices - 1u), bands[0], &raw);
  BARRIER();
  wgmma_begin(TN, acc);
  NO_UNROLL for (u32 slice = 0u; slice < n_slices; slice += 2u) {
    add_slice(args, b, slice, bands[0], x_at, words, words + 16, &raw, acc);
    if (slice + 1u == n_slices) break;
    add_slice(args, b, slice + 1u, bands[0], x_at, words + 16, words, &raw, acc);
  }
  wgmma_wait(TN, acc, 32u, words);
  scale_sums(args, acc);
}
