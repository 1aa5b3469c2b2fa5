// exp and functions of it. The language allows an error of exp that grows with |x|; this one stays
// within 2 units of the last place where the result is a normal number.

fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn exp_f32(x: f32) -> f32 {
  // exp(x) = 2^n exp(r), |r| <= ln 2 / 2; ln 2 in two parts, so that x - n ln 2 is exact but for
  // the last product. Taylor's series to r^7 leaves 2^-27.
  let c = clamp(x, -87.0, 88.0);
  let n = round(c * 1.44269504);
  let r = (c - n * 0.693359375) + n * 2.12194440e-4;
  var p = 1.9841270e-4;
  p = p * r + 1.3888889e-3;
  p = p * r + 8.3333333e-3;
  p = p * r + 4.1666667e-2;
  p = p * r + 1.6666667e-1;
  p = p * r + 0.5;
  p = p * r * r + r + 1.0;
  let y = p * bitcast<f32>((i32(n) + 127) << 23u);
  // The language leaves comparisons with NaN to the device, so NaN is told by its bits.
  return select(select(y, 0.0, x < -87.0), x, is_nan(x));
}

fn sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + exp_f32(-x));
}

fn tanh_f32(x: f32) -> f32 {
  // Within 6 units of the last place: near 0 by Moshier's polynomial (Cephes, tanhf), where
  // 1 - 2 / (exp(2 x) + 1) would cancel.
  let a = abs(x);
  let z = x * x;
  var q = -5.70498872745e-3;
  q = q * z + 2.06390887954e-2;
  q = q * z - 5.37397155531e-2;
  q = q * z + 1.33314422036e-1;
  q = q * z - 3.33332819422e-1;
  let far = 1.0 - 2.0 / (exp_f32(2.0 * a) + 1.0);
  return select(select(far, -far, x < 0.0), x + x * z * q, a < 0.625);
}
