// Rounds numbers to int8 with a common scale. Each error is at most half of the scale.

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
