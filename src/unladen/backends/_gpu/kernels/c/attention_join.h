#use step exp sum rounding
// Adds up the shares of a query row's keys. Each share left its sums of values, the largest score
// that they are relative to, and the sum of its weights. A workgroup takes a row, a thread a column
// of every SLICES-th share. With CODED, the row is rounded to int8: see `quantize`.
typedef struct {
  u32 n_heads;
} Params;

#bind struct Params params
#bind in float x
#if CODED
#bind out u32 codes
#bind out f2 scales
#else
#bind out float y
#end
#define COLUMNS (VD < WG ? VD : WG)
#define SLICES (WG / COLUMNS)
// Shares whose values a thread loads before it uses one of them: all, where a row isn't long.
#define EACH ((MAX_SPLITS + SLICES - 1u) / SLICES)
#define AT_ONCE (EACH < 32u ? EACH : 32u)
#shared float factor MAX_SPLITS
#shared float sums WG

// Values of the shares from number `share` on; `at` is where the first share has the column.
FN void load_values(ARGS, u32 at, u32 share, u32 n_splits, PRIVATE float *value) {
  for (u32 k = 0u; k < AT_ONCE; k++) {
    const u32 s = share + k * SLICES;
    value[k] = s < n_splits ? x[at + s * (VD + 2u)] : 0.0f;
  }
}

// The sum of a column over all slices.
FN float column_of(ARGS, u32 column) {
  float total = 0.0f;
  for (u32 s = 0u; s < SLICES; s++) total += sums[s * COLUMNS + column];
  return total;
}

#if CODED
// Stores a row of which the workgroup has all columns, each thread the four from number 4 LANE on.
// Threads next to each other have the columns of RUNS runs, which have one scale.
FN void store_codes(ARGS, u32 row, float sum) {
  const u32 at = 4u * min_u32(LANE, VD / 4u - 1u);
  const f4 v = F4(column_of(args, at), column_of(args, at + 1u), column_of(args, at + 2u),
                  column_of(args, at + 3u)) / sum;
  float largest = largest_of(v), total = f4_dot(v, F4_ALL(1.0f));
  for (u32 k = 1u; k < 4u * RUNS; k *= 2u) largest = larger(largest, shuffle_xor(largest, k));
  for (u32 k = 1u; k < 4u; k *= 2u) total += shuffle_xor(total, k);
  if (LANE >= VD / 4u) return;
  codes[row * (VD / 4u) + LANE] = rounded(v, inverse_scale(largest));
  if (LANE % 4u == 0u) scales[row * (VD / 16u) + LANE / 4u] = F2(scale_of(largest), total);
}
#end

KERNEL(attention_join) {
  const u32 row = GROUP_X + GROUP_Y * N_GROUPS_X;
  if (row >= n_rows(args, N_TOKENS) * params.n_heads) return;
  const u32 n_splits = min_u32((u32)step[N_SPLITS], MAX_SPLITS);
  const u32 at = row * n_splits * (VD + 2u);
  const u32 column = LANE % COLUMNS, slice = LANE / COLUMNS;
  // The first values are on their way while factors are computed.
  float value[AT_ONCE];
  load_values(args, at + column, slice, n_splits, value);
  float top = -3.0e38f, weights = 0.0f;
  if (LANE < n_splits) {
    top = x[at + LANE * (VD + 2u) + VD];
    weights = x[at + LANE * (VD + 2u) + VD + 1u];
  }
  const float own = exp_f32(top - max_all(args, top));
  if (LANE < n_splits) factor[LANE] = own;
  const float sum = sum_all(args, LANE < n_splits ? own * weights : 0.0f);
  // With more columns than threads there is one slice, and a thread reads its own sum alone. So no
  // turn waits for the one before.
  for (u32 first = 0u; first < VD; first += COLUMNS) {
    float total = 0.0f;
    for (u32 s = slice; s < n_splits; s += SLICES * AT_ONCE) {
      if ((COLUMNS < VD && first > 0u) || (AT_ONCE < EACH && s > slice)) {
        load_values(args, at + min_u32(first + column, VD - 1u), s, n_splits, value);
      }
      for (u32 k = 0u; k < AT_ONCE; k++) {
        if (s + k * SLICES < n_splits) total += value[k] * factor[s + k * SLICES];
      }
    }
    sums[LANE] = total;
    BARRIER();
#if CODED
    store_codes(args, row, sum);
#else
    if (LANE < COLUMNS && first + LANE < VD) {
      y[row * VD + first + LANE] = column_of(args, LANE) / sum;
    }
#end
  }
}
