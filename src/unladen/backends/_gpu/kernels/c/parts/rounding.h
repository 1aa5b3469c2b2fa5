// Rounds numbers to int8 with a common scale. Each error is at most half of the scale.

// The larger of two sizes. NaN is larger than any number, so that it becomes the scale: codes can't
// hold it.
FN float larger(float a, float b) { return as_f32(max_u32(as_u32(a), as_u32(b))); }

FN float largest_of(f4 v) {
  const f4 a = f4_abs(v);
  return larger(larger(a.x, a.y), larger(a.z, a.w));
}

// The scale of numbers of magnitude up to `largest`. NaN where that is infinite: whatever the codes
// are, their products aren't finite.
FN float scale_of(float largest) {
  return as_u32(largest) < 0x7f800000u ? largest * (1.0f / 127.0f) : as_f32(0x7fc00000u);
}

// The factor that scales numbers of magnitude up to `largest` to int8.
FN float inverse_scale(float largest) {
  const float scale = largest * (1.0f / 127.0f);
  return scale >= 1.1754944e-38f ? 1.0f / scale : 0.0f;
}

// Next to 1.5 * 2^23 the last digit of a number stands for 1, so a sum is rounded to the nearest.
FN u32 rounded_one(float x) { return as_u32(x + 12582912.0f) & 255u; }

FN u32 rounded(f4 v, float inverse) {
  return rounded_one(v.x * inverse) | (rounded_one(v.y * inverse) << 8)
         | (rounded_one(v.z * inverse) << 16) | (rounded_one(v.w * inverse) << 24);
}
