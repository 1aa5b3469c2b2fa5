// The activation whose name in capitals is given as a constant: see ACTIVATIONS in the graph's ops.

fn activate(x: f32) -> f32 {
#if SILU
  return x / (1.0 + exp_f32(-x));
#end
#if GELU
  // 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
  let u = 0.7978845608 * (x + 0.044715 * x * x * x);
  return x / (1.0 + exp_f32(-2.0 * u));
#end
#if GELU_QUICK
  return x / (1.0 + exp_f32(-1.702 * x));
#end
#if GELU_ERF
  // Abramowitz and Stegun 7.1.26: erf within 1.5e-7.
  let z = abs(x) * 0.7071067812;
  let t = 1.0 / (1.0 + 0.3275911 * z);
  let q = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t
           + 0.254829592) * t;
  let tail = 0.5 * q * exp_f32(-z * z);
  return x * select(tail, 1.0 - tail, x >= 0.0);
#end
#if SIGMOID
  return 1.0 / (1.0 + exp_f32(-x));
#end
#if TANH
  return 1.0 - 2.0 / (1.0 + exp_f32(2.0 * x));
#end
#if SOFTPLUS
  return max(x, 0.0) + log(1.0 + exp_f32(-abs(x)));
#end
#if EXP
  return exp_f32(x);
#end
#if IDENTITY
  return x;
#end
#if RELU
  return max(x, 0.0);
#end
#if RELU_SQUARED
  let p = max(x, 0.0);
  return p * p;
#end
}
