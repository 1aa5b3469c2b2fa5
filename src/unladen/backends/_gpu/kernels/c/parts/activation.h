// The activation whose name in capitals is given as a constant: see ACTIVATIONS in the graph's ops.

FN float activate(float x) {
#if SILU
  return x * sigmoid(x);
#end
#if GELU
  // 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return x * sigmoid(2.0f * u);
#end
#if GELU_QUICK
  return x * sigmoid(1.702f * x);
#end
#if GELU_ERF
  // Abramowitz and Stegun 7.1.26: erf within 1.5e-7.
  const float z = abs_f32(x) * 0.7071067812f;
  const float t = 1.0f / (1.0f + 0.3275911f * z);
  float q = 1.061405429f;
  q = q * t - 1.453152027f;
  q = q * t + 1.421413741f;
  q = q * t - 0.284496736f;
  q = (q * t + 0.254829592f) * t;
  const float tail = 0.5f * q * exp_f32(-z * z);
  return x * (x >= 0.0f ? 1.0f - tail : tail);
#end
#if SIGMOID
  return sigmoid(x);
#end
#if TANH
  return 1.0f - 2.0f / (1.0f + exp_f32(2.0f * x));
#end
#if SOFTPLUS
  return max_f32(x, 0.0f) + log_f32(1.0f + exp_f32(-abs_f32(x)));
#end
#if EXP
  return exp_f32(x);
#end
#if IDENTITY
  return x;
#end
#if RELU
  return max_f32(x, 0.0f);
#end
#if RELU_SQUARED
  const float p = max_f32(x, 0.0f);
  return p * p;
#end
}
