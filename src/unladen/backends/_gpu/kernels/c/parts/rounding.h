// Rounds numbers to int8 with a common scale. Each error is at most half of the scale.

// The larger of two sizes. NaN is larger than any number, so that it becomes the scale: codes can't
// hold it.
FN float larger(float a, float b) { return as_f32(max_u32(as_u32(a), as_u32(b))); }

FN float largest_of(f4 v) {
  const f4 a = f4_abs(v);
  return larger(larger(a.x, a.y), larger(a.z, a.w));
}

// The factor that scales numbers of magnitude up to `largest` to int8.
FN float inverse_scale(float largest) {
  const float scale = largest / 127.0f;
  return scale >= 1.1754944e-38f ? 1.0f / scale : 0.0f;
}

FN u32 rounded_one(float x) { return u32_of((int)round_f32(x)) & 255u; }

FN u32 rounded(f4 v, float inverse) {
  return rounded_one(v.x * inverse) | (rounded_one(v.y * inverse) << 8)
         | (rounded_one(v.z * inverse) << 16) | (rounded_one(v.w * inverse) << 24);
}
