// Rounds numbers to int8 with a common scale. Each error is at most half of the scale.

// The larger of two sizes. NaN is larger than any number, so that it becomes the scale: codes can't
// hold it.
fn larger(a: f32, b: f32) -> f32 { return bitcast<f32>(max(bitcast<u32>(a), bitcast<u32>(b))); }

fn largest_of(v: vec4f) -> f32 {
  let a = abs(v);
  return larger(larger(a.x, a.y), larger(a.z, a.w));
}

// The factor that scales numbers of magnitude up to `largest` to int8.
fn inverse_scale(largest: f32) -> f32 {
  let scale = largest / 127.0;
  return select(0.0, 1.0 / scale, scale >= 1.1754944e-38);
}

fn rounded(v: vec4f, inverse: f32) -> u32 {
  return pack4xI8(vec4i(round(v * inverse)));
}
