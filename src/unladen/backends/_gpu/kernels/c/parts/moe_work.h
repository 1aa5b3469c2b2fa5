#bind in u32 order
#bind in u32 tiles

// A tile: its expert, counted from those that the bindings hold; the first place in `order`; and
// the number of pairs.
typedef struct {
  u32 expert, at, count;
} Work;

// Every thread reads the same words, so that a workgroup's memory is left to the tiles.
FN Work find_work(ARGS) {
  Work work;
  const u32 at = 1u + 3u * GROUP_Z;
  const int is_there = GROUP_Z < tiles[0];
  work.expert = is_there ? tiles[at] - routing.first_expert : 0u;
  work.at = is_there ? tiles[at + 1u] : 0u;
  work.count = is_there && work.expert < routing.n_experts ? tiles[at + 2u] : 0u;
  return work;
}
