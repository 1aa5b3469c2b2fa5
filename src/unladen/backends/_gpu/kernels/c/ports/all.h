// What every port has in the same words, written with what the ports define.

#define F4_ALL(value) F4(value, value, value, value)

FN u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
FN u32 max_u32(u32 a, u32 b) { return a > b ? a : b; }
FN float min_f32(float a, float b) { return b < a ? b : a; }
FN float max_f32(float a, float b) { return b > a ? b : a; }
FN float clamp_f32(float x, float low, float high) { return min_f32(max_f32(x, low), high); }

FN f4 f4_abs(f4 v) { return F4(abs_f32(v.x), abs_f32(v.y), abs_f32(v.z), abs_f32(v.w)); }

FN f4 f4_max(f4 a, f4 b) {
  return F4(max_f32(a.x, b.x), max_f32(a.y, b.y), max_f32(a.z, b.z), max_f32(a.w, b.w));
}

// The largest of four numbers.
FN float f4_largest(f4 v) { return max_f32(max_f32(v.x, v.y), max_f32(v.z, v.w)); }

FN f4 f4_bits(u4 bits) {
  return F4(as_f32(bits.x), as_f32(bits.y), as_f32(bits.z), as_f32(bits.w));
}

// Two or four numbers of float16 in one or two words, the first in the low half.
FN f2 f2_halves(u32 bits) { return F2(f16_to_f32(bits & 0xffffu), f16_to_f32(bits >> 16)); }

FN f4 f4_halves(u2 bits) {
  return F4(f16_to_f32(bits.x & 0xffffu), f16_to_f32(bits.x >> 16), f16_to_f32(bits.y & 0xffffu),
            f16_to_f32(bits.y >> 16));
}

// Four bytes as numbers, the lowest first.
FN f4 f4_signed(u32 bytes) {
  return F4((float)i8_of(bytes), (float)i8_of(bytes >> 8), (float)i8_of(bytes >> 16),
            (float)i8_of(bytes >> 24));
}

FN f4 f4_unsigned(u32 bytes) {
  return F4((float)(bytes & 255u), (float)((bytes >> 8) & 255u), (float)((bytes >> 16) & 255u),
            (float)(bytes >> 24));
}
