#use step
// Sorts the pairs of a token and an expert chosen for it by expert, and cuts each expert's pairs
// into tiles of at most TILE. tiles[0] counts them; each is an expert, its first place in `order`,
// and a number of pairs. Pairs of one expert stay in the order of the tokens; pairs of experts
// beyond EXPERTS are left out.
//
// A workgroup takes an expert, and a thread a run of pairs. The tiles of expert e begin at tile
// s / TILE + e if s pairs are of experts before it. That is enough room for all tiles before them,
// whatever the numbers of pairs are, so no workgroup waits for another. A tile that isn't needed
// has no pairs.
typedef struct {
  u32 n_used;
} Params;

#bind struct Params params
#bind in u32 chosen
#bind out u32 order
#bind out u32 tiles

// For each thread: pairs of the expert up to the end of the thread's run, and of experts before it.
#shared u2 counted WG

// Replaces the numbers of each thread by their sums over the threads up to it.
FN void add_up(ARGS) {
  for (u32 n = 1u; n < WG; n *= 2u) {
    BARRIER();
    u2 sum = counted[LANE];
    if (LANE >= n) {
      const u2 more = counted[LANE - n];
      sum = U2(sum.x + more.x, sum.y + more.y);
    }
    BARRIER();
    counted[LANE] = sum;
  }
  BARRIER();
}

KERNEL(moe_group) {
  const u32 e = GROUP_X;
  const u32 n_pairs = n_rows(args, ROW_KIND) * params.n_used;
  const u32 each = (n_pairs + WG - 1u) / WG;
  const u32 first = min_u32(LANE * each, n_pairs);
  const u32 end = min_u32(first + each, n_pairs);
  u32 mine = 0u, before = 0u;
  for (u32 p = first; p < end; p++) {
    const u32 other = chosen[p];
    mine += other == e ? 1u : 0u;
    before += other < e ? 1u : 0u;
  }
  counted[LANE] = U2(mine, before);
  add_up(args);
  const u2 all = counted[WG - 1u], up_to_here = counted[LANE];
  u32 at = all.y + up_to_here.x - mine;
  for (u32 p = first; p < end; p++) {
    if (chosen[p] == e) {
      order[at] = p;
      at++;
    }
  }
  const u32 first_tile = all.y / TILE + e;
  const u32 n_tiles = (all.x + all.y) / TILE + e + 1u - first_tile;
  for (u32 i = LANE; i < n_tiles; i += WG) {
    const u32 from = min_u32(i * TILE, all.x);
    tiles[1u + 3u * (first_tile + i)] = e;
    tiles[2u + 3u * (first_tile + i)] = all.y + from;
    tiles[3u + 3u * (first_tile + i)] = min_u32(TILE, all.x - from);
  }
  if (e == EXPERTS - 1u && LANE == 0u) tiles[0] = first_tile + n_tiles;
}
