#use bias
// Adds residual to a product and stores it.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;
#if MATRICES
@group(1) @binding(10) var<storage, read_write> y1: array<f32>;
#if W2
@group(1) @binding(11) var<storage, read_write> y2: array<f32>;
#end
#end
#if RESIDUAL
@group(1) @binding(8) var<storage, read_write> residual: array<f32>;
#end

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
