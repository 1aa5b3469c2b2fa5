#use step order
// y = the place of each row's largest number, or -1. A workgroup takes TILE numbers and leaves the
// best (key, place). With LAST, a workgroup chooses among those of a row.
typedef struct {
  u32 n, n_tiles;
} Params;

#bind struct Params params
#if LAST
#bind in u2 tiles
#bind out int y
#else
#bind out u2 tiles
#bind in u32 x
#end
#shared u2 found WG

// The best of this thread's share.
FN u2 own_best(ARGS) {
  u2 best = NOTHING;
#if LAST
  for (u32 i = LANE; i < params.n_tiles; i += WG) {
    const u2 other = tiles[GROUP_Y * params.n_tiles + i];
    if (is_before(other, best)) best = other;
  }
#else
  const u32 end = min_u32((GROUP_X + 1u) * TILE, params.n);
  for (u32 i = GROUP_X * TILE + LANE; i < end; i += WG) {
    const u2 other = U2(key_of(x[GROUP_Y * params.n + i]), i);
    if (is_before(other, best)) best = other;
  }
#end
  return best;
}

KERNEL(argmax) {
  found[LANE] = own_best(args);
  BARRIER();
  for (u32 n = WG / 2u; n > 0u; n /= 2u) {
    if (LANE < n) {
      const u2 mine = found[LANE];
      const u2 other = found[LANE + n];
      if (is_before(other, mine)) found[LANE] = other;
    }
    BARRIER();
  }
  if (LANE == 0u) {
    const u2 best = found[0];
#if LAST
    y[GROUP_Y] = best.x < INFINITE && best.x > MINUS_INFINITE ? (int)best.y : -1;
#else
    tiles[GROUP_Y * params.n_tiles + GROUP_X] = best;
#end
  }
}
