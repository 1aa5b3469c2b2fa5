#use step exp sum
// Chooses the experts of each token, best first, and their weights, from the logits of all EXPERTS.
// The lower index wins a tie. Experts are stored as numbers from first_expert on. Numbers before it
// wrap around in u32, so experts that the node doesn't hold have numbers above those that it holds.
// A workgroup takes a token.
typedef struct {
  u32 n_used;
  float scale;
  u32 first_expert, n_groups, n_groups_used, fold;
} Params;

#bind struct Params params
#bind in float x
#bind out u32 chosen
#bind out float weights
#if SELECT_BIAS
#bind in float select_bias
#end
#if GIVEN
// Experts that are chosen before all others, n_used for each token.
#bind in float given
#end
#if SLOTS
// Which of the held experts each expert is, below 0 for those that the node doesn't hold.
#bind in float slot_of
#end
#if TOLD
// The numbers of the chosen experts, before they are counted from the first that is held.
#bind out float told
#end

#define LOWEST -3.4e38f
// Weights are divided by their sum, but never by less than this.
#define LEAST_SUM 6.103515625e-5f
#shared float logit EXPERTS
#shared float score EXPERTS
#shared u32 best WG
// The probabilities of the experts that were chosen.
#shared float taken EXPERTS

// The better of two experts; EXPERTS stands for none.
FN u32 better(ARGS, u32 a, u32 b) {
  if (a == EXPERTS || b == EXPERTS) return min_u32(a, b);
  if (score[a] == score[b]) return min_u32(a, b);
  return score[b] > score[a] ? b : a;
}

// An expert's weight before the factor that all chosen ones share.
FN float probability(ARGS, u32 e, float top, float sum) {
#if SIGMOID
  return sigmoid(logit[e]);
#end
#if SQRT_SOFTPLUS
  // 1 + exp(x) would lose digits for small exp(x), where log(1 + exp(x)) is nearly exp(x).
  const float l = logit[e];
  if (l < -8.0f) return sqrt_f32(exp_f32(l));
  return sqrt_f32(max_f32(l, 0.0f) + log_f32(1.0f + exp_f32(-abs_f32(l))));
#end
#if SOFTMAX
  return exp_f32(logit[e] - top) / sum;
#end
#if SOFTMAX_CHOSEN
  return exp_f32(logit[e] - top);
#end
}

#if GROUPS
// What each group is worth; in the end LOWEST for those that are kept.
#shared float worth EXPERTS

// Keeps only the experts of the groups with the largest sums of their two best.
FN void mask_groups(ARGS) {
  const u32 size = EXPERTS / params.n_groups;
  for (u32 g = LANE; g < params.n_groups; g += WG) {
    float first = LOWEST, next = LOWEST;
    for (u32 e = g * size; e < (g + 1u) * size; e++) {
      next = max_f32(next, min_f32(first, score[e]));
      first = max_f32(first, score[e]);
    }
    worth[g] = size > 1u ? first + next : first;
  }
  BARRIER();
  if (LANE == 0u) {
    for (u32 i = 0u; i < params.n_groups_used; i++) {
      u32 kept = 0u;
      for (u32 g = 1u; g < params.n_groups; g++) {
        if (worth[g] > worth[kept]) kept = g;
      }
      worth[kept] = LOWEST;
    }
  }
  BARRIER();
  for (u32 e = LANE; e < EXPERTS; e += WG) {
    if (worth[e / size] > LOWEST) score[e] = LOWEST;
  }
}
#end

// Computes what experts are compared by. A thread reads later what it wrote here itself.
FN void fill_scores(ARGS, u32 t, float top, float sum) {
  for (u32 e = LANE; e < EXPERTS; e += WG) {
#if SCORED
    float own = probability(args, e, top, sum);
#else
    float own = logit[e];
#end
#if SELECT_BIAS
    own += select_bias[e];
#end
#if GIVEN
    for (u32 i = 0u; i < params.n_used; i++) {
      const float asked = given[t * params.n_used + i];
      if ((u32)clamp_f32(asked, 0.0f, (float)(EXPERTS - 1u)) == e) own = 3.4e38f;
    }
#end
    score[e] = own;
  }
#if GROUPS
  BARRIER();
  mask_groups(args);
#end
}

// Leaves the best expert that isn't chosen yet in best[0].
FN void find_best(ARGS) {
  u32 mine = EXPERTS;
  for (u32 e = LANE; e < EXPERTS; e += WG) {
    if (score[e] > LOWEST) mine = better(args, mine, e);
  }
  best[LANE] = mine;
  BARRIER();
  for (u32 h = WG / 2u; h > 0u; h /= 2u) {
    if (LANE < h) best[LANE] = better(args, best[LANE], best[LANE + h]);
    BARRIER();
  }
}

KERNEL(moe_route) {
  // Workgroups beyond the last token take it again: PoCL 3.1 compiles a return before barriers in
  // loops wrongly.
  const u32 t = min_u32(GROUP_X + GROUP_Y * N_GROUPS_X, n_rows(args, ROW_KIND) - 1u);
  float top = LOWEST;
  for (u32 e = LANE; e < EXPERTS; e += WG) {
    const float own = x[t * EXPERTS + e];
    logit[e] = own;
    top = max_f32(top, own);
  }
  top = max_all(args, top);
  float sum = 0.0f;
  for (u32 e = LANE; e < EXPERTS; e += WG) sum += exp_f32(logit[e] - top);
  sum = sum_all(args, sum);
  fill_scores(args, t, top, sum);
  float total = 0.0f;
  for (u32 i = 0u; i < params.n_used; i++) {
    find_best(args);
    if (LANE == 0u) {
      // `best` is no expert only if logits are NaN.
      const u32 e = min_u32(best[0], EXPERTS - 1u);
      const float p = probability(args, e / params.fold, top, sum);
#if SLOTS
      chosen[t * params.n_used + i] = (u32)(int)slot_of[e / params.fold];
#else
      chosen[t * params.n_used + i] = e / params.fold - params.first_expert;
#end
#if TOLD
      told[t * params.n_used + i] = (float)e;
#end
      taken[i] = p;
      total += p;
      score[e] = LOWEST;
    }
    BARRIER();
  }
  // Other threads' totals are 0.
  total = sum_all(args, total);
#if SOFTMAX_CHOSEN
  const float factor = params.scale / total;
#else
#if NORMALIZE
  const float factor = params.scale / max_f32(total, LEAST_SUM);
#else
  const float factor = params.scale;
#end
#end
  for (u32 i = LANE; i < params.n_used; i += WG) {
    weights[t * params.n_used + i] = taken[i] * factor;
  }
}
