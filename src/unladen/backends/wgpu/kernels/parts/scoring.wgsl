// Which keys a token sees, and its scores before the softmax: see Scoring in the graph's attention.
// SLIDING, CHUNKED or SYMMETRIC is the kind of window; without any of them there is no window.
#if ALIBI
@group(1) @binding(5) var<storage, read> slopes: array<f32>;
#end
#if SINKS
@group(1) @binding(6) var<storage, read> sinks: array<f32>;
#end

// The first key that token p of its sequence sees. It never decreases from token to token.
fn first_key(p: u32) -> u32 {
#if SLIDING
  return p + 1u - min(p + 1u, params.window);
#end
#if CHUNKED
  return p / params.window * params.window;
#end
#if SYMMETRIC
  return p - min(p, params.window / 2u);
#end
#if UNLIMITED
  return 0u;
#end
}

// The last key that row t of the step sees, if it doesn't see all: its own, or the last of its
// span.
fn last_key(t: u32) -> u32 {
#if SPANS
  return u32(batch(SEES_TO, t));
#else
  return u32(batch(INDEX, t));
#end
}

// The key after the last one that a token sees, for p = last_key. It never decreases from token to
// token.
fn end_key(p: u32, seq: u32) -> u32 {
#if BOTH_SIDES
#if SYMMETRIC
  return min(u32(batch(KV_LEN, seq)), p + params.window / 2u + 1u);
#else
  return u32(batch(KV_LEN, seq));
#end
#else
  return p + 1u;
#end
}

// The score for a product of query and key. Only slopes use `head` and the distance.
fn scored(product: f32, head: u32, p: u32, key: u32) -> f32 {
  var score = product * params.scale;
#if SOFTCAP
  score = params.softcap * tanh_f32(score / params.softcap);
#end
#if ALIBI
  score -= slopes[head] * f32(max(p, key) - min(p, key));
#end
  return score;
}

// The weight of a key by its score, relative to the largest one. A score that is NaN gives NaN,
// whatever a device makes of comparisons with NaN: that of a key too large for the cache.
fn weight_of(score: f32, top: f32) -> f32 {
  return select(select(exp_f32(score - top), 0.0, score <= LOWEST), score, is_nan(score));
}
