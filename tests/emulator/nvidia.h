// The emulator's bodies of the primitives in ports/nvidia.h. A thread gives its registers, waits
// for the 31 others, and computes its own part of what they make together.

#define UNROLL
#define NO_UNROLL
#define LAUNCHED_BEGIN(T, name, size) SHARED_BEGIN(T, name, size)
#define load_u32_from(b, at, more) load_u32(b, (at) + (more))
#define load_u128_from(b, at, more) load_u128(b, (at) + (more))
#define element_from(a, i, more) ((a)[(i) + (more)])
#define copy_async_from(to, i, later, from, at, more) \
  copy_async(to, (i) + (later), from, (at) + (more))

namespace emulator {

inline u32 permute(u32 a, u32 b, u32 chosen) {
  u32 out = 0;
  for (u32 i = 0; i < 4u; i++) {
    const u32 digit = chosen >> (4u * i) & 15u;
    // An eighth and higher digits would copy the sign.
    if (digit > 7u) fault("permutes bytes by a digit above 7:", "digit", digit, 0);
    out |= ((digit < 4u ? a : b) >> (digit % 4u * 8u) & 255u) << (8u * i);
  }
  return out;
}

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

// A product of four warps that is under way: what this thread adds to its n / 2 numbers of c when
// it waits. `a` must hold the words `given` until then. `group`: how many groups ended before it.
struct Product {
  float *c;
  const u32 *a;
  u32 given[4], rows[2][8];
  SharedArray<u4> tile;
  u64 b;
  u32 n, is_bf16, group;
};

constexpr u32 MOST_PRODUCTS = 64, MOST_SUMS = 64;

// `held` is what c must hold while products are under way.
struct Products {
  Product each[MOST_PRODUCTS];
  float held[MOST_SUMS];
  u32 n, n_groups, has_begun;
};

inline Products &products() {
  static Products of_thread[1024];
  return of_thread[thread.lane];
}

inline u32 element_of(const Product &one, u32 column, u32 k) {
  const u32 first = u32(one.b & 0x3fffu), leading = u32(one.b >> 16 & 0x3fffu);
  const u32 stride = u32(one.b >> 32 & 0x3fffu);
  return first + k * leading + column / 8u * stride + column % 8u;
}

inline u32 column_of(u32 o) { return o / 4u * 8u + thread.lane % 4u * 2u + o % 2u; }

// Looks at the columns of b that a product of this thread reads, when it begins (`more` is 1) and
// when it ends (-1). The units may read them at any time between.
inline void look_at_columns(const Product &one, int more) {
  for (u32 o = 0; CHECKS && o < one.n / 2u; o += o % 2u ? 3u : 1u) {
    for (u32 k = 0; k < 2u; k++) {
      const u32 i = element_of(one, column_of(o), k);
      if (more > 0) one.tile.load_for_units(i);
      one.tile.count_products(i, more);
    }
  }
}

// Takes the two rows of a that this thread's results need. b is there now, and is read later.
inline void multiply_later(u32 n, float *c, const u32 *a, const SharedArray<u4> &tile, u64 b,
                           u32 is_bf16, const char *file, int line) {
  meet_warpgroup(a, 4, file, line);
  Products &own = products();
  Product made{c, a, {a[0], a[1], a[2], a[3]}, {}, tile, b, n, is_bf16, own.n_groups};
  if (b >> 62) fault("swizzled descriptor", tile.name, b & 0x3fffu, 0);
  const u32 g = thread.lane % 32u / 4u;
  for (u32 half = 0; half < 2u; half++) {
    for (u32 k = 0; k < 8u; k++) {
      made.rows[half][k] = register_of(4u * g + k % 4u, half + k / 4u * 2u);
    }
  }
  if (!own.has_begun) fault("multiplies before wgmma_begin with", tile.name, own.n, 0);
  if (!own.n) __builtin_memcpy(own.held, c, n / 2u * sizeof(float));
  if (own.n == MOST_PRODUCTS) {
    fault("too many products under way", tile.name, own.n, 0);
  } else {
    own.each[own.n++] = made;
    look_at_columns(made, 1);
  }
}

inline void begin_products(const char *file, int line) {
  meet_warpgroup(nullptr, 0, file, line);
  products().has_begun = 1;
}

inline void commit_products(const char *file, int line) {
  meet_warpgroup(nullptr, 0, file, line);
  products().n_groups++;
  products().has_begun = 0;
}

// A thread that was broken off leaves products behind, in memory that is gone.
inline void forget_products() { products().n = products().n_groups = products().has_begun = 0; }

inline void tell_products() {
  const u32 n = products().n;
  if (n) fault("hasn't waited for products with", products().each[0].tile.name, n, 0);
}

inline u32 word_of(const u4 &row, u32 i) {
  return i < 2u ? (i == 0u ? row.x : row.y) : (i == 2u ? row.z : row.w);
}

inline void end_product(const Product &one) {
  for (u32 i = 0; i < 4u; i++) {
    if (one.a[i] != one.given[i]) fault("changes rows of products with", one.tile.name, i, 0);
  }
  u32 words[2][8];
  for (u32 o = 0; o < one.n / 2u; o++) {
    for (u32 k = 0; k < 2u && o % 4u < 2u; k++) {
      const u4 row = one.tile.load_for_units(element_of(one, column_of(o), k));
      for (u32 i = 0; i < 4u; i++) words[o % 2u][4u * k + i] = word_of(row, i);
    }
    one.c[o] = add_dot(one.c[o], one.rows[o % 4u / 2u], words[o % 2u], one.is_bf16);
  }
  look_at_columns(one, -1);
}

// Ends the products of all groups but the last n_left; those that no group has stay under way.
inline void end_products(u32 n_left, const char *file, int line) {
  if (CHECKS) meet(nullptr, 0, file, line);
  Products &own = products();
  if (!own.n) return;
  float *c = own.each[0].c;
  const u32 n_bytes = own.each[0].n / 2u * sizeof(float);
  if (CHECKS && __builtin_memcmp(own.held, c, n_bytes)) {
    fault("changes sums of products with", own.each[0].tile.name, own.n, 0);
  }
  u32 n = 0;
  while (n < own.n && own.each[n].group + n_left < own.n_groups) end_product(own.each[n++]);
  for (u32 i = n; i < own.n; i++) own.each[i - n] = own.each[i];
  own.n -= n;
  __builtin_memcpy(own.held, c, n_bytes);
}

inline void prefetch_bytes(const Memory &from, u64 at, u32 n) {
  if (at % 16) fault("misaligned: prefetches", from.name, at, 0);
  if (n % 16) fault("a size that isn't a multiple of 16: prefetches", from.name, n, 0);
  from.reaches(at, n, "out of bounds: prefetches");
}

} // namespace emulator

#define load_matrices(out, tile, i) emulator::load_rows<false>(out, tile, i, __FILE__, __LINE__)
#define load_matrices_from(out, tile, i, more) load_matrices(out, tile, (i) + (more))
#define load_transposed(out, tile, i) emulator::load_rows<true>(out, tile, i, __FILE__, __LINE__)
#define mma_f16(c, a, b) emulator::multiply_halves(c, a, b, 0, __FILE__, __LINE__)
#define mma_bf16(c, a, b) emulator::multiply_halves(c, a, b, 1, __FILE__, __LINE__)
#define mma_i8(c, a, b) emulator::multiply_bytes(c, a, b, 32, __FILE__, __LINE__)
#define mma_i8_half(c, a, b) emulator::multiply_bytes(c, a, b, 16, __FILE__, __LINE__)
#define permute_bytes(a, b, chosen) emulator::permute(a, b, chosen)
#define shuffle_xor(x, mask) emulator::value_of(x, mask, __FILE__, __LINE__)
#define shuffle_xor_int(x, mask) \
  ((int)as_u32(emulator::value_of(as_f32((u32)(x)), mask, __FILE__, __LINE__)))
// A descriptor's fields are those of the PTX ISA; an address is that of the element in its array.
typedef u64 Descriptor;
#define matrix_descriptor(tile, i, leading, stride) \
  ((Descriptor)((i) & 0x3fffu) | (Descriptor)((leading) >> 4) << 16 \
   | (Descriptor)((stride) >> 4) << 32)
#define wgmma_begin(n, c) emulator::begin_products(__FILE__, __LINE__)
#define wgmma_begin_more(n_words, a) emulator::begin_products(__FILE__, __LINE__)
#define value_after(n_words, a, value) (value)
#define wgmma_commit() emulator::commit_products(__FILE__, __LINE__)
#define wgmma_wait(n, c, n_words, a) emulator::end_products(0, __FILE__, __LINE__)
#define wgmma_wait_but(n_left, n_words, a) emulator::end_products(n_left, __FILE__, __LINE__)
#define show_copies() emulator::pass_fence()
#define wgmma_f16(n, c, a, tile, b) \
  emulator::multiply_later(n, c, a, tile, b, 0, __FILE__, __LINE__)
#define wgmma_bf16(n, c, a, tile, b) \
  emulator::multiply_later(n, c, a, tile, b, 1, __FILE__, __LINE__)
#define sync_warp() emulator::meet_in_order(__FILE__, __LINE__)
#define begin_arrivals(array, i, n) emulator::begin_phases(&(array).data[i], n, (array).name, i)
#define show_arrivals() emulator::show_phases()
#define arrive_at(array, i) emulator::arrive(&(array).data[i], 0, (array).name, i)
#define expect_bytes(array, i, n) emulator::arrive(&(array).data[i], n, (array).name, i)
#define wait_for_arrivals(array, i, parity) \
  emulator::wait_for_phase(&(array).data[i], parity, (array).name, i, __FILE__, __LINE__)
#define copy_in_bulk(to, i, from, at, n, array, k) \
  emulator::copy_bulk(to, i, (from).memory, at, n, &(array).data[k])
#define begin_early() (emulator::may_touch() = false)
#define wait_for_previous() (emulator::may_touch() = true)
#define prefetch(b, at, n) emulator::prefetch_bytes((b).memory, at, n)

FN u32 halves_of(float low, float high) { return f32_to_f16(low) | (f32_to_f16(high) << 16); }

FN u32 round_to_half(double x) {
  const _Float16 number = (_Float16)x;
  u16 stored;
  __builtin_memcpy(&stored, &number, 2);
  return stored;
}

// Rounded once to 53 digits, and then to those of float16.
FN u32 fma_halves(u32 a, u32 b, u32 c) {
  u32 out = 0;
  for (u32 at = 0; at < 32u; at += 16u) {
    const double product = double(f16_to_f32(a >> at & 0xffffu)) * f16_to_f32(b >> at & 0xffffu);
    out |= round_to_half(product + double(f16_to_f32(c >> at & 0xffffu))) << at;
  }
  return out;
}

FN u32 add_halves(u32 a, u32 b) { return fma_halves(a, 0x3c003c00u, b); }
// Minus zero as what is added leaves the sign of zero.
FN u32 mul_halves(u32 a, u32 b) { return fma_halves(a, b, 0x80008000u); }

// Rounds to the nearest, of two to the even one.
FN u32 brain_of(float x) {
  const u32 bits = as_u32(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

FN u32 brains_of(float low, float high) { return brain_of(low) | (brain_of(high) << 16); }
