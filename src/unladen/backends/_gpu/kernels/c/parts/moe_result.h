// The weight of an expert's result for a pair, and its bias. Experts are counted from the first
// held.
#bind in float weights
#if DOWN_SCALE
#bind in float down_scale
#end
#if DOWN_BIAS
#bind in float down_bias
#end

// WEIGHED: the expert's input was multiplied with the weight.
FN float pair_weight(ARGS, u32 pair) {
#if WEIGHED
  return 1.0f;
#else
  return weights[pair];
#end
}

FN float result_weight(ARGS, u32 pair, u32 expert) {
#if DOWN_SCALE
  return pair_weight(args, pair) * down_scale[expert];
#else
  return pair_weight(args, pair);
#end
}

#if DOWN_BIAS
FN float bias_of(ARGS, u32 pair, u32 expert, u32 n_cols, u32 col) {
  return pair_weight(args, pair) * down_bias[expert * n_cols + col];
}
#end
