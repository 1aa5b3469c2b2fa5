// exp and functions of it, the same on every device. exp stays within 2 units of the last place
// where the result is a normal number.

FN float exp_f32(float x) {
  // exp(x) = 2^n exp(r), |r| <= ln 2 / 2; ln 2 in two parts, so that x - n ln 2 is exact but for
  // the last product. Taylor's series to r^7 leaves 2^-27.
  const float c = clamp_f32(x, -87.0f, 88.0f);
  const float n = round_f32(c * 1.44269504f);
  const float r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9841270e-4f;
  p = p * r + 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const float y = p * as_f32((u32)((int)n + 127) << 23);
  // NaN comes through both: clamp_f32 leaves it, and it is less than nothing.
  return x < -87.0f ? 0.0f : y;
}

FN float sigmoid(float x) { return 1.0f / (1.0f + exp_f32(-x)); }

FN float tanh_f32(float x) {
  // Within 6 units of the last place: near 0 by Moshier's polynomial (Cephes, tanhf), where
  // 1 - 2 / (exp(2 x) + 1) would cancel.
  const float a = abs_f32(x);
  const float z = x * x;
  float q = -5.70498872745e-3f;
  q = q * z + 2.06390887954e-2f;
  q = q * z - 5.37397155531e-2f;
  q = q * z + 1.33314422036e-1f;
  q = q * z - 3.33332819422e-1f;
  const float far = 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
  if (a < 0.625f) return x + x * z * q;
  return x < 0.0f ? -far : far;
}
