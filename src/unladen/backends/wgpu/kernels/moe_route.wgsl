#use step exp sum
// Chooses the experts of each token, best first, and their weights, from the logits of all EXPERTS.
// The lower index wins a tie. Experts are stored as numbers from first_expert on. Numbers before it
// wrap around in u32, so experts that the node doesn't hold have numbers above those that it holds.
// A workgroup takes a token.
struct Params {
  n_used: u32,
  scale: f32,
  first_expert: u32,
  n_groups: u32,
  n_groups_used: u32,
  fold: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(3) var<storage, read_write> weights: array<f32>;
#if SELECT_BIAS
@group(1) @binding(4) var<storage, read> select_bias: array<f32>;
#end

#if GIVEN
// Experts that are chosen before all others, n_used for each token.
@group(1) @binding(5) var<storage, read_write> given: array<f32>;
#end
#if SLOTS
// Which of the held experts each expert is, below 0 for those that the node doesn't hold.
@group(1) @binding(6) var<storage, read> slot_of: array<f32>;
#end
#if TOLD
// The numbers of the chosen experts, before they are counted from the first that is held.
@group(1) @binding(7) var<storage, read_write> told: array<f32>;
#end

const LOWEST = -3.4e38;
// Weights are divided by their sum, but never by less than this.
const LEAST_SUM = 6.103515625e-5;
var<workgroup> logit: array<f32, EXPERTS>;
var<workgroup> score: array<f32, EXPERTS>;
var<workgroup> best: array<u32, WG>;
// The probabilities of the experts that were chosen.
var<workgroup> taken: array<f32, EXPERTS>;

// The better of two experts; EXPERTS stands for none.
fn better(a: u32, b: u32) -> u32 {
  if (a == EXPERTS || b == EXPERTS) { return min(a, b); }
  return select(select(a, b, score[b] > score[a]), min(a, b), score[a] == score[b]);
}

// An expert's weight before the factor that all chosen ones share.
fn probability(e: u32, top: f32, sum: f32) -> f32 {
#if SIGMOID
  return sigmoid(logit[e]);
#end
#if SQRT_SOFTPLUS
  // 1 + exp(x) would lose digits for small exp(x), where log(1 + exp(x)) is nearly exp(x).
  let l = logit[e];
  return sqrt(select(max(l, 0.0) + log(1.0 + exp_f32(-abs(l))), exp_f32(l), l < -8.0));
#end
#if SOFTMAX
  return exp_f32(logit[e] - top) / sum;
#end
#if SOFTMAX_CHOSEN
  return exp_f32(logit[e] - top);
#end
}

#if GROUPS
// Keeps only the experts of the groups with the largest sums of their two best.
fn mask_groups() {
  let size = EXPERTS / params.n_groups;
  var worth: array<f32, EXPERTS>;
  for (var g = 0u; g < params.n_groups; g++) {
    var first = LOWEST;
    var next = LOWEST;
    for (var e = g * size; e < (g + 1u) * size; e++) {
      next = max(next, min(first, score[e]));
      first = max(first, score[e]);
    }
    worth[g] = first;
    if (size > 1u) { worth[g] += next; }
  }
  for (var i = 0u; i < params.n_groups_used; i++) {
    var kept = 0u;
    for (var g = 1u; g < params.n_groups; g++) {
      if (worth[g] > worth[kept]) { kept = g; }
    }
    worth[kept] = LOWEST;
  }
  for (var e = 0u; e < EXPERTS; e++) {
    if (worth[e / size] > LOWEST) { score[e] = LOWEST; }
  }
}
#end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let t = min(id.x + id.y * groups.x, n_rows(ROW_KIND) - 1u);
  var top = LOWEST;
  for (var e = lane; e < EXPERTS; e += WG) {
    logit[e] = x[t * EXPERTS + e];
    top = max(top, logit[e]);
  }
  top = max_all(who, top);
  var sum = 0.0;
  for (var e = lane; e < EXPERTS; e += WG) { sum += exp_f32(logit[e] - top); }
  sum = sum_all(who, sum);
  for (var e = lane; e < EXPERTS; e += WG) {
    score[e] = logit[e];
#if SCORED
    score[e] = probability(e, top, sum);
#end
#if SELECT_BIAS
    score[e] += select_bias[e];
#end
  }
#if GIVEN
  workgroupBarrier();
  if (lane == 0u) {
    for (var i = 0u; i < params.n_used; i++) {
      let e = u32(clamp(given[t * params.n_used + i], 0.0, f32(EXPERTS - 1u)));
      score[e] = 3.4e38;
    }
  }
  workgroupBarrier();
#end
#if GROUPS
  workgroupBarrier();
  if (lane == 0u) { mask_groups(); }
  workgroupBarrier();
#end

  let out = t * params.n_used;
  var total = 0.0;
  for (var i = 0u; i < params.n_used; i++) {
    var mine = EXPERTS;
    for (var e = lane; e < EXPERTS; e += WG) {
      if (score[e] > LOWEST) { mine = better(mine, e); }
    }
    best[lane] = mine;
    workgroupBarrier();
    for (var h = WG / 2u; h > 0u; h /= 2u) {
      if (lane < h) { best[lane] = better(best[lane], best[lane + h]); }
      workgroupBarrier();
    }
    if (lane == 0u) {
      // `best` is no expert only if logits are NaN.
      let e = min(best[0], EXPERTS - 1u);
      let p = probability(e / params.fold, top, sum);
#if SLOTS
      chosen[out + i] = u32(i32(slot_of[e / params.fold]));
#else
      chosen[out + i] = e / params.fold - params.first_expert;
#end
#if TOLD
      told[out + i] = f32(e);
#end
      taken[i] = p;
      total += p;
      score[e] = LOWEST;
    }
    workgroupBarrier();
  }
  if (lane == 0u) {
    var factor = params.scale;
#if NORMALIZE
    factor /= max(total, LEAST_SUM);
#end
#if SOFTMAX_CHOSEN
    factor = params.scale / total;
#end
    for (var i = 0u; i < params.n_used; i++) { weights[out + i] = taken[i] * factor; }
  }
}
