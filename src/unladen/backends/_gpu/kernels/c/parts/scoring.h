// Which keys a token sees, and its scores before the softmax: see Scoring in the graph's attention.
// SLIDING, CHUNKED or SYMMETRIC is the kind of window; without any of them there is no window.
#if ALIBI
#bind in float slopes
#end
#if SINKS
#bind in float sinks
#end

// The first key that token p of its sequence sees. It never decreases from token to token.
FN u32 first_key(ARGS, u32 p) {
#if SLIDING
  return p + 1u - min_u32(p + 1u, params.window);
#end
#if CHUNKED
  return p / params.window * params.window;
#end
#if SYMMETRIC
  return p - min_u32(p, params.window / 2u);
#end
#if UNLIMITED
  return 0u;
#end
}

// The last key that row t of the step sees, if it doesn't see all: its own, or the last of its
// span.
FN u32 last_key(ARGS, u32 t) {
#if SPANS
  return (u32)batch(args, SEES_TO, t);
#else
  return (u32)batch(args, INDEX, t);
#end
}

// The key after the last one that a token sees, for p = last_key. It never decreases from token to
// token.
FN u32 end_key(ARGS, u32 p, u32 seq) {
#if BOTH_SIDES
#if SYMMETRIC
  return min_u32((u32)batch(args, KV_LEN, seq), p + params.window / 2u + 1u);
#else
  return (u32)batch(args, KV_LEN, seq);
#end
#else
  return p + 1u;
#end
}

// The score for a product of query and key. Only slopes use `head` and the distance.
FN float scored(ARGS, float product, u32 head, u32 p, u32 key) {
  float score = product * params.scale;
#if SOFTCAP
  score = params.softcap * tanh_f32(score / params.softcap);
#end
#if ALIBI
  score -= slopes[head] * (float)(max_u32(p, key) - min_u32(p, key));
#end
  return score;
}
