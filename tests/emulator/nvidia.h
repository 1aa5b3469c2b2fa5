// The emulator's bodies of the primitives in ports/nvidia.h. A thread gives its registers, waits
// for the 31 others, and computes its own part of what they make together.

#define UNROLL
#define NO_UNROLL

namespace emulator {

inline u32 register_of(u32 thread, u32 i) { return given_by(thread)[i]; }

template <bool transposed> void load_rows(u32 *out, const SharedArray<u4> &tile, u32 i,
                                          const char *file, int line) {
  const u32 element[1] = {i};
  meet(element, 1, file, line);
  const u32 lane = thread.lane % 32u, g = lane / 4u, t = lane % 4u;
  for (u32 j = 0; j < 4u; j++) {
    if (lane == 0) {
      u32 elements[8];
      for (u32 r = 0; r < 8u; r++) elements[r] = register_of(8u * j + r, 0);
      count_banks(elements);
    }
    if (!transposed) {
      const u4 row = tile.load(register_of(8u * j + g, 0));
      out[j] = t < 2u ? (t == 0u ? row.x : row.y) : (t == 2u ? row.z : row.w);
      continue;
    }
    u32 half[2];
    for (u32 k = 0; k < 2u; k++) {
      const u4 row = tile.load(register_of(8u * j + 2u * t + k, 0));
      const u32 word = g < 4u ? (g < 2u ? row.x : row.y) : (g < 6u ? row.z : row.w);
      half[k] = word >> (16u * (g % 2u)) & 0xffffu;
    }
    out[j] = half[0] | half[1] << 16;
  }
}

} // namespace emulator

#define load_matrices(out, tile, i) emulator::load_rows<false>(out, tile, i, __FILE__, __LINE__)
#define load_transposed(out, tile, i) emulator::load_rows<true>(out, tile, i, __FILE__, __LINE__)
#define mma_f16(c, a, b) emulator::multiply_halves(c, a, b, 0, __FILE__, __LINE__)
#define mma_bf16(c, a, b) emulator::multiply_halves(c, a, b, 1, __FILE__, __LINE__)
#define mma_i8(c, a, b) emulator::multiply_bytes(c, a, b, 32, __FILE__, __LINE__)
#define mma_i8_half(c, a, b) emulator::multiply_bytes(c, a, b, 16, __FILE__, __LINE__)
#define shuffle_xor(x, mask) emulator::value_of(x, mask, __FILE__, __LINE__)
#define wait_for_previous()
#define allow_next()

FN u32 halves_of(float low, float high) { return f32_to_f16(low) | (f32_to_f16(high) << 16); }

// Rounds to the nearest, of two to the even one.
FN u32 brain_of(float x) {
  const u32 bits = as_u32(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

FN u32 brains_of(float low, float high) { return brain_of(low) | (brain_of(high) << 16); }
