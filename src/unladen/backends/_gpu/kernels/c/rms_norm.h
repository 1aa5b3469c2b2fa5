#use step sum
// y = x / sqrt(mean(x^2) + eps) * w. A workgroup takes a group of `size` items of a row; an item is
// four columns or one. w repeats every `period` items.
typedef struct {
  u32 n_items, size;
  float eps;
  u32 period;
} Params;

#bind struct Params params
#if FOURS
#define COLUMNS 4.0f
#define square(v) f4_dot(v, v)
typedef f4 Item;
#else
#define COLUMNS 1.0f
#define square(v) ((v) * (v))
typedef float Item;
#end
#bind in Item x
#if WEIGHT
#bind in Item w
#end
#bind out Item y

FN void finish(ARGS, u32 i, Item value) {
#if WEIGHT
  y[i] = value * w[i % params.n_items % params.period];
#else
  y[i] = value;
#end
}

KERNEL(rms_norm) {
  const u32 n_groups = n_rows(args, ROW_KIND) * (params.n_items / params.size);
  const u32 group = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (group >= n_groups) return;
  const u32 at = group * params.size;
  Item kept[KEPT];
  float s = 0.0f;
  for (u32 k = 0u; k < KEPT; k++) {
    if (LANE + k * WG < params.size) {
      kept[k] = x[at + LANE + k * WG];
      s += square(kept[k]);
    }
  }
  for (u32 i = LANE + KEPT * WG; i < params.size; i += WG) {
    const Item v = x[at + i];
    s += square(v);
  }
  const float mean = sum_all(args, s) / (COLUMNS * (float)params.size);
  const float factor = 1.0f / sqrt_f32(mean + params.eps);
  for (u32 k = 0u; k < KEPT; k++) {
    if (LANE + k * WG < params.size) finish(args, at + LANE + k * WG, kept[k] * factor);
  }
  for (u32 i = LANE + KEPT * WG; i < params.size; i += WG) {
    const Item v = x[at + i];
    finish(args, at + i, v * factor);
  }
}
