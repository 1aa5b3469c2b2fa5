#bind in u32 order
#bind in u32 tiles

// A tile: its expert, counted from those that the bindings hold; the first place in `order`; and
// the number of pairs.
#shared u32 work 3

FN void find_work(ARGS) {
  if (LANE == 0u) {
    const u32 at = 1u + 3u * GROUP_Z;
    work[2] = 0u;
    if (GROUP_Z < tiles[0]) {
      const u32 expert = tiles[at] - routing.first_expert;
      if (expert < routing.n_experts) {
        work[0] = expert;
        work[1] = tiles[at + 1u];
        work[2] = tiles[at + 2u];
      }
    }
  }
  BARRIER();
}
