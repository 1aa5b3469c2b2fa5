// Adds bias to a product.
#if BIAS
@group(1) @binding(6) var<storage, read> bias: array<f32>;
#end
#if BIAS1
@group(1) @binding(7) var<storage, read> bias1: array<f32>;
#end
#if BIAS2
@group(1) @binding(12) var<storage, read> bias2: array<f32>;
#end

fn with_bias(value: f32, row: u32) -> f32 {
#if MATRICES
#if BIAS1
  if (which == 1u) { return value + bias1[row]; }
#end
#if BIAS2
  if (which == 2u) { return value + bias2[row]; }
#end
  if (which != 0u) { return value; }
#end
#if BIAS
  return value + bias[row];
#else
  return value;
#end
}
