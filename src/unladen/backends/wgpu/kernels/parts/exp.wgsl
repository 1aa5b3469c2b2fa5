// exp and what is made of it. The language only promises an error that grows with |x|; these stay
// within 2 units of the last place (exp) where the result is a normal number.

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
  return select(y, 0.0, x < -87.0);
}

fn sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + exp_f32(-x));
}
