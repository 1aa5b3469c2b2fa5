#use step exp sum
// The experts of each token, best first, and their weights, from the logits of all EXPERTS. The
// lower index wins a tie. Experts are written counted from first_expert, round the end of u32: where
// a node doesn't hold all, the others come out beyond those held. A workgroup of WG threads for each
// token.
struct Params {
  n_used: u32,
  gating: u32,
  normalize: u32,
  scale: f32,
  first_expert: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(3) var<storage, read_write> weights: array<f32>;

const SIGMOID = 1u;
const LOWEST = -3.4e38;
var<workgroup> logit: array<f32, EXPERTS>;
var<workgroup> best: array<u32, WG>;

// The better of two experts; EXPERTS stands for none.
fn better(a: u32, b: u32) -> u32 {
  if (a == EXPERTS || b == EXPERTS) { return min(a, b); }
  return select(select(a, b, logit[b] > logit[a]), min(a, b), logit[a] == logit[b]);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, who: Thread) {
  let lane = who.lane;
  var top = LOWEST;
  for (var e = lane; e < EXPERTS; e += WG) {
    logit[e] = x[id.x * EXPERTS + e];
    top = max(top, logit[e]);
  }
  top = max_all(who, top);
  var sum = 0.0;
  for (var e = lane; e < EXPERTS; e += WG) { sum += exp_f32(logit[e] - top); }
  sum = sum_all(who, sum);

  let out = id.x * params.n_used;
  var total = 0.0;
  for (var i = 0u; i < params.n_used; i++) {
    var mine = EXPERTS;
    for (var e = lane; e < EXPERTS; e += WG) {
      if (logit[e] > LOWEST) { mine = better(mine, e); }
    }
    best[lane] = mine;
    workgroupBarrier();
    for (var h = WG / 2u; h > 0u; h /= 2u) {
      if (lane < h) { best[lane] = better(best[lane], best[lane + h]); }
      workgroupBarrier();
    }
    if (lane == 0u) {
      // None is left only where logits are no numbers.
      let e = min(best[0], EXPERTS - 1u);
      let p = select(exp_f32(logit[e] - top) / sum, sigmoid(logit[e]), params.gating == SIGMOID);
      chosen[out + i] = e - params.first_expert;
      weights[out + i] = p;
      total += p;
      logit[e] = LOWEST;
    }
    workgroupBarrier();
  }
  if (lane == 0u) {
    let factor = select(params.scale, params.scale / total, params.normalize != 0u);
    for (var i = 0u; i < params.n_used; i++) { weights[out + i] *= factor; }
  }
}
