// Adds bias and residual to a product and stores it.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;
#if BIAS
@group(1) @binding(6) var<storage, read> bias: array<f32>;
#end
#if BIAS1
@group(1) @binding(7) var<storage, read> bias1: array<f32>;
#end
#if BIAS2
@group(1) @binding(12) var<storage, read> bias2: array<f32>;
#end
#if MATRICES
@group(1) @binding(10) var<storage, read_write> y1: array<f32>;
#if W2
@group(1) @binding(11) var<storage, read_write> y2: array<f32>;
#end
#end
#if RESIDUAL
@group(1) @binding(8) var<storage, read_write> residual: array<f32>;
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

fn store(value: f32, token: u32, row: u32) {
  let i = token * m.n_out + row;
#if MATRICES
  if (which == 1u) {
    y1[i] = value;
    return;
  }
#if W2
  if (which == 2u) {
    y2[i] = value;
    return;
  }
#end
#end
#if RESIDUAL
  y[i] = value + residual[i];
#else
  y[i] = value;
#end
}
