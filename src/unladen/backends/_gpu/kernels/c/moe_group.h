#use step
// Sorts the pairs of a token and an expert chosen for it by expert, and cuts each expert's pairs
// into tiles of at most TILE. tiles[0] counts them; each is an expert, its first place in `order`,
// and a number of pairs. One workgroup does it all. Pairs of one expert stay in the order of the
// tokens; pairs of experts beyond EXPERTS are left out.
typedef struct {
  u32 n_used;
} Params;

#bind struct Params params
#bind in u32 chosen
#bind out u32 order
#bind out u32 tiles

#shared u32 start EXPERTS

// Turns the experts' numbers of pairs into their first places, and writes the tiles.
FN void cut_tiles(ARGS) {
  u32 at = 0u, n_tiles = 0u;
  for (u32 e = 0u; e < EXPERTS; e++) {
    const u32 n = start[e];
    start[e] = at;
    for (u32 i = 0u; i < n; i += TILE) {
      tiles[1u + 3u * n_tiles] = e;
      tiles[2u + 3u * n_tiles] = at + i;
      tiles[3u + 3u * n_tiles] = min_u32(TILE, n - i);
      n_tiles++;
    }
    at += n;
  }
  tiles[0] = n_tiles;
}

KERNEL(moe_group) {
  const u32 n_pairs = n_rows(args, ROW_KIND) * params.n_used;
  for (u32 e = LANE; e < EXPERTS; e += WG) {
    u32 n = 0u;
    for (u32 p = 0u; p < n_pairs; p++) n += chosen[p] == e ? 1u : 0u;
    start[e] = n;
  }
  BARRIER();
  if (LANE == 0u) cut_tiles(args);
  BARRIER();
  for (u32 e = LANE; e < EXPERTS; e += WG) {
    u32 at = start[e];
    for (u32 p = 0u; p < n_pairs; p++) {
      if (chosen[p] == e) {
        order[at] = p;
        at++;
      }
    }
  }
}
