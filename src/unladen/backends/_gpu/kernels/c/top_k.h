#use step order
// The k largest numbers of each row, in rounds. A workgroup sorts TILE numbers and keeps the best
// k; the next round takes what all of a row's workgroups kept, until one workgroup is left.
typedef struct {
  u32 n, n_tiles, k;
} Params;

#bind struct Params params
#if FIRST
#bind in u32 x
#else
#bind in u2 x
#end
#if LAST
#bind out u32 places
#bind out u32 y
#else
#bind out u2 kept
#end
#shared u2 tile TILE

KERNEL(top_k) {
  for (u32 i = LANE; i < TILE; i += WG) {
    const u32 at = GROUP_X * TILE + i;
    tile[i] = NOTHING;
    if (at < params.n) {
#if FIRST
      tile[i] = U2(key_of(x[GROUP_Y * params.n + at]), at);
#else
      tile[i] = x[GROUP_Y * params.n + at];
#end
    }
  }
  BARRIER();
  // The bitonic sorting network (K. Batcher, "Sorting networks and their applications", 1968).
  for (u32 size = 2u; size <= TILE; size *= 2u) {
    for (u32 distance = size / 2u; distance > 0u; distance /= 2u) {
      for (u32 pair = LANE; pair < TILE / 2u; pair += WG) {
        const u32 i = 2u * pair - pair % distance;
        const u2 a = tile[i];
        const u2 b = tile[i + distance];
        if (is_before(b, a) == ((i & size) == 0u)) {
          tile[i] = b;
          tile[i + distance] = a;
        }
      }
      BARRIER();
    }
  }
  for (u32 i = LANE; i < params.k; i += WG) {
    const u32 to = (GROUP_Y * params.n_tiles + GROUP_X) * params.k + i;
    const u2 best = tile[i];
#if LAST
    places[to] = best.y;
    y[to] = bits_of(best.x);
#else
    kept[to] = best;
#end
  }
}
