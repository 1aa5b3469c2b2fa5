// What happens to a product before it is stored.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;
#if BIAS
@group(1) @binding(6) var<storage, read> bias: array<f32>;
#end
#if BIAS1
@group(1) @binding(7) var<storage, read> bias1: array<f32>;
#end
#if RESIDUAL
@group(1) @binding(8) var<storage, read_write> residual: array<f32>;
#end

fn with_bias(value: f32, row: u32) -> f32 {
#if BIAS
  return value + bias[row];
#else
  return value;
#end
}

fn store(value: f32, token: u32, row: u32) {
  let i = token * m.n_out + row;
#if RESIDUAL
  y[i] = value + residual[i];
#else
  y[i] = value;
#end
}
