#use step exp
// The experts of each token, best first, and their weights, from the logits of all EXPERTS. The
// lower index wins a tie. A workgroup of 64 threads for each token.
struct Params {
  n_used: u32,
  gating: u32,
  normalize: u32,
  scale: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(3) var<storage, read_write> weights: array<f32>;

const SIGMOID = 1u;
const LOWEST = -3.4e38;
var<workgroup> logit: array<f32, EXPERTS>;
var<workgroup> best_value: array<f32, 64>;
var<workgroup> best_index: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let out = id.x * params.n_used;
  for (var e = lane; e < EXPERTS; e += 64u) { logit[e] = x[id.x * EXPERTS + e]; }
  workgroupBarrier();
  for (var i = 0u; i < params.n_used; i++) {
    var value = LOWEST;
    var index = EXPERTS;
    for (var e = lane; e < EXPERTS; e += 64u) {
      var taken = false;
      for (var j = 0u; j < i; j++) { taken = taken || chosen[out + j] == e; }
      if (!taken && (logit[e] > value || index == EXPERTS)) {
        value = logit[e];
        index = e;
      }
    }
    best_value[lane] = value;
    best_index[lane] = index;
    workgroupBarrier();
    for (var h = 32u; h > 0u; h /= 2u) {
      if (lane < h) {
        let other = best_value[lane + h];
        let other_index = best_index[lane + h];
        if (best_index[lane] == EXPERTS || (other_index != EXPERTS && (other > best_value[lane]
            || (other == best_value[lane] && other_index < best_index[lane])))) {
          best_value[lane] = other;
          best_index[lane] = other_index;
        }
      }
      workgroupBarrier();
    }
    if (lane == 0u) { chosen[out + i] = best_index[0]; }
    storageBarrier();
    workgroupBarrier();
  }
  if (lane == 0u) {
    let top = logit[chosen[out]];
    var sum = 0.0;
    if (params.gating != SIGMOID) {
      for (var e = 0u; e < EXPERTS; e++) { sum += exp_f32(logit[e] - top); }
    }
    var total = 0.0;
    for (var i = 0u; i < params.n_used; i++) {
      let z = logit[chosen[out + i]];
      let p = select(exp_f32(z - top) / sum, sigmoid(z), params.gating == SIGMOID);
      weights[out + i] = p;
      total += p;
    }
    let factor = select(params.scale, params.scale / total, params.normalize != 0u);
    for (var i = 0u; i < params.n_used; i++) { weights[out + i] *= factor; }
  }
}
