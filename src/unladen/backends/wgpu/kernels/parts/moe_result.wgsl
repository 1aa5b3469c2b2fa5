// The weight of an expert's result for a pair, and its bias. Experts are counted from the first
// held.
#if DOWN_SCALE
@group(1) @binding(9) var<storage, read> down_scale: array<f32>;
#end
#if DOWN_BIAS
@group(1) @binding(10) var<storage, read> down_bias: array<f32>;
#end

// WEIGHED: the expert's input was multiplied with the weight.
fn pair_weight(pair: u32) -> f32 {
#if WEIGHED
  return 1.0;
#else
  return weights[pair];
#end
}

fn result_weight(pair: u32, expert: u32) -> f32 {
#if DOWN_SCALE
  return pair_weight(pair) * down_scale[expert];
#else
  return pair_weight(pair);
#end
}

#if DOWN_BIAS
fn bias_of(pair: u32, expert: u32, n_cols: u32, col: u32) -> f32 {
  return pair_weight(pair) * down_bias[expert * n_cols + col];
}
#end
