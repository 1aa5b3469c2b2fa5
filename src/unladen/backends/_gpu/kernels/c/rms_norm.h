#use step sum
// y = x / sqrt(mean(x^2) + eps) * w. A workgroup takes a group of `size` items of a row; an item is
// four columns or one. w repeats every `period` items. Each thread loads KEPT items and their
// weights before squares are added up; with LONGER the group has more of them.
typedef struct {
  u32 n_items, size;
  float eps;
  u32 period;
} Params;

#bind struct Params params
#if FOURS
#define COLUMNS 4.0f
#define ITEM_BYTES 16u
#define square(v) f4_dot(v, v)
typedef f4 Item;
#else
#define COLUMNS 1.0f
#define ITEM_BYTES 4u
#define square(v) ((v) * (v))
typedef float Item;
#end
#bind in Item x
#if WEIGHT
#bind in Item w
#end
#bind out Item y

#if WEIGHT
// The weight of item i of a group whose first item has weight `from`.
FN Item weight_of(ARGS, u32 from, u32 i) {
  return w[from + i < params.period ? from + i : (from + i) % params.period];
}
#define weighed(value, weight) ((value) * (weight))
#else
#define weighed(value, weight) (value)
#end

FN void store(ARGS, u32 i, Item value) { y[i] = value; }

KERNEL(rms_norm) {
  const u32 group = GROUP_X + GROUP_Y * N_GROUPS_X;
  const u32 at = group * params.size;
#if WEIGHT
  const u32 from = at % params.n_items % params.period;
#end
#if PDL
#if WEIGHT
#if FOURS
  // The weights come closer while the launch before this one ends.
  if (LANE == 0u) {
    prefetch(w, ITEM_BYTES * from, ITEM_BYTES * min_u32(params.size, params.period - from));
  }
#end
#end
  wait_for_previous();
#end
  // Only a folded grid has workgroups beyond the last group.
  if (GROUP_Y > 0u && group >= n_rows(args, ROW_KIND) * (params.n_items / params.size)) return;
  Item kept[KEPT];
#if WEIGHT
  Item weight[KEPT];
#end
  float s = 0.0f;
  for (u32 k = 0u; k < KEPT; k++) {
    if (LANE + k * WG < params.size) {
      kept[k] = x[at + LANE + k * WG];
#if WEIGHT
      weight[k] = weight_of(args, from, LANE + k * WG);
#end
    }
  }
  for (u32 k = 0u; k < KEPT; k++) {
    if (LANE + k * WG < params.size) s += square(kept[k]);
  }
#if LONGER
  for (u32 i = LANE + KEPT * WG; i < params.size; i += WG) {
    const Item v = x[at + i];
    s += square(v);
  }
#end
  const float mean = sum_all(args, s) / (COLUMNS * (float)params.size);
  const float factor = 1.0f / sqrt_f32(mean + params.eps);
  for (u32 k = 0u; k < KEPT; k++) {
    if (LANE + k * WG < params.size) {
      store(args, at + LANE + k * WG, weighed(kept[k] * factor, weight[k]));
    }
  }
#if LONGER
  for (u32 i = LANE + KEPT * WG; i < params.size; i += WG) {
    const Item v = x[at + i];
    store(args, at + i, weighed(v * factor, weight_of(args, from, i)));
  }
#end
}
