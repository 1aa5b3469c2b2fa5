#use step order
// y = the place of each row's largest number, or -1. A workgroup takes TILE numbers, four at a time
// with FOURS, and leaves the best (key, place). With LAST, a workgroup chooses among those of a
// row.
typedef struct {
  u32 n, n_tiles;
} Params;

#bind struct Params params
#if LAST
#bind in u2 tiles
#bind out int y
#else
#bind out u2 tiles
#if FOURS
#bind in u4 x
#define AT_ONCE 4u
#else
#bind in u32 x
#define AT_ONCE 1u
#end
#end
#if SUBGROUPS
// No subgroup has fewer than four threads.
#shared u2 found (WG / 4u)
#else
#shared u2 found WG
#end

FN u2 better(u2 a, u2 b) { return is_before(b, a) ? b : a; }

#if LAST
// The best of this thread's share.
FN u2 own_best(ARGS) {
  u2 best = NOTHING;
  for (u32 i = LANE; i < params.n_tiles; i += WG) {
    const u2 other = tiles[GROUP_Y * params.n_tiles + i];
    best = better(best, other);
  }
  return best;
}
#else
// Entry i, if `best` comes later or is the same number further on.
FN u2 better_number(u2 best, u32 bits, u32 i) {
  const u32 key = key_of(bits);
  return key > best.x ? U2(key, i) : best;
}

// The best of this thread's share; at the end of a row it takes the last numbers several times.
FN u2 own_best(ARGS) {
  const u32 n = params.n / AT_ONCE, first = GROUP_X * (TILE / AT_ONCE) + LANE;
  u2 best = NOTHING;
#if FOURS
  u4 numbers[TILE / AT_ONCE / WG];
#else
  u32 numbers[TILE / AT_ONCE / WG];
#end
  for (u32 k = 0u; k < TILE / AT_ONCE / WG; k++) {
    numbers[k] = x[GROUP_Y * n + min_u32(first + k * WG, n - 1u)];
  }
  for (u32 k = 0u; k < TILE / AT_ONCE / WG; k++) {
    const u32 at = AT_ONCE * min_u32(first + k * WG, n - 1u);
#if FOURS
    best = better_number(best, numbers[k].x, at);
    best = better_number(best, numbers[k].y, at + 1u);
    best = better_number(best, numbers[k].z, at + 2u);
    best = better_number(best, numbers[k].w, at + 3u);
#else
    best = better_number(best, numbers[k], at);
#end
  }
  return best;
}
#end

// The best of all threads, for thread 0.
FN u2 best_of_all(ARGS, u2 best) {
#if SUBGROUPS
  const u32 key = subgroup_max_u32(best.x);
  const u32 place = ~subgroup_max_u32(best.x == key ? ~best.y : 0u);
  if (IN_SUBGROUP == 0u) found[SUBGROUP] = U2(key, place);
  BARRIER();
  const u32 n = N_SUBGROUPS;
#else
  const u32 n = 16u;
  found[LANE] = best;
  BARRIER();
  if (LANE < n) {
    for (u32 i = LANE + n; i < WG; i += n) {
      const u2 other = found[i];
      best = better(best, other);
    }
    found[LANE] = best;
  }
  BARRIER();
#end
  best = found[0];
  for (u32 i = 1u; i < n; i++) {
    const u2 other = found[i];
    best = better(best, other);
  }
  return best;
}

KERNEL(argmax) {
  const u2 best = best_of_all(args, own_best(args));
  if (LANE == 0u) {
#if LAST
    y[GROUP_Y] = best.x < INFINITE && best.x > MINUS_INFINITE ? (int)best.y : -1;
#else
    tiles[GROUP_Y * params.n_tiles + GROUP_X] = best;
#end
  }
}
