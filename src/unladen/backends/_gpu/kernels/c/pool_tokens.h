#use step column exp
// One row for each group of tokens: see PoolTokens in the graph's ops. A thread takes a channel of
// a sequence.
typedef struct {
  u32 ratio, n_groups, width;
} Params;

#bind struct Params params
#bind in float x
#bind in float scores
#bind in float place
#bind out float slots
#bind out float y

// Where the state holds values (kind 0) or scores (kind 1) of the token at p for group g.
FN u32 kept(ARGS, u32 slot, u32 kind, u32 p, u32 g, u32 c) {
  const u32 n = params.n_groups * params.ratio;
  return (((slot * 2u + kind) * n + p % n) * params.n_groups + g) * params.width + c;
}

// Tokens of an earlier group have earlier columns.
FN u32 group_of(ARGS, u32 p, u32 end) {
  return params.n_groups - 1u - (end - p) / params.ratio;
}

FN float score(ARGS, u32 slot, u32 p, u32 end, u32 c) {
  const u32 g = group_of(args, p, end);
  return slots[kept(args, slot, 1u, p, g, c)]
         + place[(p % params.ratio * params.n_groups + g) * params.width + c];
}

KERNEL(pool_tokens) {
  const u32 c = COLUMN, seq = GROUP_Y, n = params.n_groups * params.ratio;
  if (c >= params.width || seq >= n_rows(args, N_SEQS)) return;
  const u32 to = (u32)batch(args, STATE_OUT, seq);
  const int source = batch(args, STATE_IN, seq);
  for (u32 kind = 0u; kind < 2u; kind++) {
    for (u32 p = 0u; p < n; p++) {
      for (u32 g = 0u; g < params.n_groups; g++) {
        slots[kept(args, to, kind, p, g, c)] =
            source >= 0 ? slots[kept(args, (u32)source, kind, p, g, c)] : 0.0f;
      }
    }
  }
  const u32 last = (u32)batch(args, Q_START, seq + 1u);
  for (u32 t = (u32)batch(args, Q_START, seq); t < last; t++) {
    const u32 end = (u32)batch(args, INDEX, t);
    for (u32 g = 0u; g < params.n_groups; g++) {
      const u32 from = (t * params.n_groups + g) * params.width + c;
      slots[kept(args, to, 0u, end, g, c)] = x[from];
      slots[kept(args, to, 1u, end, g, c)] = scores[from];
    }
    float value = 0.0f;
    if ((end + 1u) % params.ratio == 0u) {
      const u32 begin = end + 1u - min_u32(end + 1u, n);
      float top = -3.0e38f;
      for (u32 p = begin; p <= end; p++) top = max_f32(top, score(args, to, p, end, c));
      float total = 0.0f;
      for (u32 p = begin; p <= end; p++) {
        const float weight = exp_f32(score(args, to, p, end, c) - top);
        total += weight;
        value += weight * slots[kept(args, to, 0u, p, group_of(args, p, end), c)];
      }
      value /= total;
    }
    y[t * params.width + c] = value;
  }
}
