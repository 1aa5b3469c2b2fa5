// The port for the emulator, which runs a kernel on the host with a fiber for each thread.
// Arguments and shared arrays are objects that check every access: bounds, alignment, races, and
// reads of what nothing wrote. With UNCHECKED (fast.h) they only read and write.

#include "types.h"

#ifdef UNCHECKED
#define CHECKS false
#else
#define CHECKS true
#endif

// Without optimizations; build.py has the flag for frames.
#ifdef __OPTIMIZE__
#define HAS_FRAMES 0
#else
#define HAS_FRAMES 1
#endif

#define FN static inline
#define PRIVATE

#include "vectors.h"

namespace emulator {

// Whether this thread may read and write arguments: not before the launch before is done.
inline bool &may_touch() {
  static bool of_thread[1024];
  return of_thread[thread.lane];
}

// Bytes of an argument.
struct Memory {
  unsigned char *data;
  u64 n_bytes;
  Cell *cells;
  const char *name;
  const unsigned char *there;

  bool reaches(u64 at, u64 n, const char *what) const {
    if (at + n > n_bytes) fault(what, name, at, 0);
    return at + n <= n_bytes;
  }
  bool has(u64 at, u64 n, const char *what) const {
    if (!CHECKS) return true;
    if (at % n) fault("misaligned", name, at, 0);
    if (!may_touch()) fault("not waited for the launch before:", name, at, 0);
    return reaches(at, n, what);
  }
  template <class T> T get(u64 at) const {
    T value = T();
    if (!has(at, sizeof(T), "out of bounds: reads")) return value;
    if (CHECKS && there && !(there[at / 4] && there[(at + sizeof(T) - 1) / 4])) {
      fault("reads between the arrays of", name, at, 0);
    }
    for (u64 i = at; CHECKS && cells && i < at + sizeof(T); i += CELL_BYTES) {
      read_global(cells[i / CELL_BYTES], name, i);
    }
    __builtin_memcpy(&value, data + at, sizeof(T));
    return value;
  }
  template <class T> void put(u64 at, T value) const {
    if (!has(at, sizeof(T), "out of bounds: writes")) return;
    for (u64 i = at; CHECKS && i < at + sizeof(T); i += CELL_BYTES) {
      write_global(cells[i / CELL_BYTES], name, i);
    }
    __builtin_memcpy(data + at, &value, sizeof(T));
  }
};

// An element that a kernel may store.
template <class T, class Place> struct Element {
  Place place;
  u64 at;

  operator T() const { return place.load(at); }
  void operator=(T value) const { place.store(at, value); }
  void operator=(const Element &other) const { place.store(at, T(other)); }
  void operator+=(T value) const { place.store(at, place.load(at) + value); }
  void operator-=(T value) const { place.store(at, place.load(at) - value); }
  void operator*=(T value) const { place.store(at, place.load(at) * value); }
};

template <class T> struct In {
  Memory memory;
  T operator[](u32 i) const { return memory.get<T>(u64(i) * sizeof(T)); }
};

template <class T> struct Out {
  Memory memory;
  T load(u64 i) const { return memory.get<T>(i * sizeof(T)); }
  void store(u64 i, T value) const { memory.put<T>(i * sizeof(T), value); }
  Element<T, Out> operator[](u32 i) const { return {*this, i}; }
};

template <class T> struct SharedArray {
  T *data;
  SharedCell *cells;
  u64 size;
  const char *name;

  bool has(u64 i, const char *what) const {
    if (!CHECKS) return true;
    if (i >= size) fault(what, name, i, 0);
    return i < size;
  }
  T load(u64 i) const {
    if (!has(i, "out of bounds: reads")) return T();
    if (CHECKS) read_shared(cells[i], name, i);
    return data[i];
  }
  T load_for_units(u64 i) const {
    if (!has(i, "out of bounds: matrix units read")) return T();
    if (CHECKS) read_by_units(cells[i], name, i);
    return data[i];
  }
  // Products that read element i begin (1) or end (-1).
  void count_products(u64 i, int more) const {
    if (i < size) cells[i].products += u32(more);
  }
  void store(u64 i, T value) const {
    if (!has(i, "out of bounds: writes")) return;
    if (CHECKS) write_shared(cells[i], name, i);
    data[i] = value;
  }
  Element<T, SharedArray> operator[](u32 i) const { return {*this, i}; }
};

template <class T> SharedArray<T> shared(u64 size, const char *name) {
  const Shared made = shared_array(size, sizeof(T), name);
  return {(T *)made.data, made.cells, size, name};
}

inline Memory memory(const Argument &argument, const char *name) {
  return {argument.data, argument.n_bytes, argument.cells, name, argument.there};
}

inline Source source(const Memory &from, u64 at) {
  Cell *cells = CHECKS && from.cells ? from.cells + at / CELL_BYTES : nullptr;
  return {from.data + at, cells, from.name, at};
}

inline void copy_async(const SharedArray<u4> &to, u32 i, const Memory &from, u64 at) {
  if (to.has(i, "out of bounds: copies to") && from.has(at, 16, "out of bounds: copies")) {
    copy_later(&to.data[i], source(from, at), CHECKS ? &to.cells[i] : nullptr, to.name, i);
  }
}

// Copies n bytes to the elements from number i on; they arrive at the barrier `where`.
inline void copy_bulk(const SharedArray<u4> &to, u32 i, const Memory &from, u64 at, u32 n,
                      void *where) {
  if (n % 16) fault("a size that isn't a multiple of 16: copies", from.name, n, 0);
  if (!to.has(i, "out of bounds: copies to") || !to.has(i + n / 16 - 1, "out of bounds: copies to")
      || !from.has(at, 16, "out of bounds: copies")
      || !from.has(at + n - 16, 16, "out of bounds: copies")) {
    return;
  }
  copy_in_bulk(&to.data[i], source(from, at), n, CHECKS ? &to.cells[i] : nullptr, to.name, i,
               where);
}

} // namespace emulator

typedef emulator::In<u32> Bytes;

#define IN_PARAM(i, T, name)
#define OUT_PARAM(i, T, name)
#define STRUCT_PARAM(i, T, name)
#define IN_BEGIN(i, T, name) const emulator::In<T> name{emulator::memory(arguments[i], #name)};
#define OUT_BEGIN(i, T, name) const emulator::Out<T> name{emulator::memory(arguments[i], #name)};
#define STRUCT_BEGIN(i, T, name) const T &name = *(const T *)arguments[i].data;
#define SHARED_BEGIN(T, name, size) const auto name = emulator::shared<T>(size, #name);
#define IN_ARG(T, name) const emulator::In<T> &name
#define OUT_ARG(T, name) const emulator::Out<T> &name
#define STRUCT_ARG(T, name) const T &name
#define SHARED_ARG(T, name) const emulator::SharedArray<T> &name
#define THREAD_ARG
#define THREAD_PASS

#define KERNEL(name) \
  FN void name##_body(ARGS); \
  extern "C" void kernel_main(const emulator::Argument *arguments) { \
    emulator::may_touch() = true; \
    emulator::thread.has_frames = HAS_FRAMES; \
    emulator::forget_products(); \
    KERNEL_BEGIN name##_body(args); \
    emulator::tell_products(); \
  } \
  FN void name##_body(ARGS)

#define LANE (emulator::thread.lane)
#define GROUP_X (emulator::thread.group[0])
#define GROUP_Y (emulator::thread.group[1])
#define GROUP_Z (emulator::thread.group[2])
#define N_GROUPS_X (emulator::thread.n_groups[0])
#define N_GROUPS_Z (emulator::thread.n_groups[2])
#define BARRIER() emulator::barrier(__FILE__, __LINE__)

#define SUBGROUP (LANE / 32u)
#define N_SUBGROUPS ((emulator::thread.n_threads + 31u) / 32u)
#define IN_SUBGROUP (LANE % 32u)
#define subgroup_add(x) emulator::in_subgroup(x, 0, __FILE__, __LINE__)
#define subgroup_max(x) emulator::in_subgroup(x, 1, __FILE__, __LINE__)
#define subgroup_max_u32(x) emulator::largest_in_subgroup(x, __FILE__, __LINE__)

#define copy_async(to, i, from, at) emulator::copy_async(to, i, (from).memory, at)
#define copy_commit() emulator::end_group_of_copies()
#define copy_wait(n) emulator::wait_for_copies(n)

FN float as_f32(u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

FN u32 as_u32(float x) {
  u32 bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

FN u32 u32_of(int x) { return (u32)x; }
FN int i8_of(u32 bits) { return (signed char)bits; }

#define load_u8(b, at) ((u32)(b).memory.get<u8>(at))
#define load_u16(b, at) ((u32)(b).memory.get<u16>(at))
#define load_u32(b, at) ((b).memory.get<u32>(at))
#define load_u64(b, at) ((b).memory.get<u2>(at))
#define load_u128(b, at) ((b).memory.get<u4>(at))
#define store_u16(b, at, bits) ((b).memory.put<u16>(at, (u16)(bits)))
#define store_u32(b, at, bits) ((b).memory.put<u32>(at, bits))

#define sqrt_f32(x) __builtin_sqrtf(x)
#define log_f32(x) __builtin_logf(x)
#define fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#define round_f32(x) __builtin_rintf(x)
#define floor_f32(x) __builtin_floorf(x)
#define abs_f32(x) __builtin_fabsf(x)
#define ones_of(bits) ((u32)__builtin_popcount(bits))

FN float f16_to_f32(u32 bits) {
  const u16 stored = (u16)bits;
  _Float16 number;
  __builtin_memcpy(&number, &stored, 2);
  return (float)number;
}

FN u32 f32_to_f16(float x) {
  const _Float16 number = (_Float16)x;
  u16 stored;
  __builtin_memcpy(&stored, &number, 2);
  return stored;
}

FN int dot_i8(u32 a, u32 b, int sum) {
  for (int k = 0; k < 32; k += 8) sum += (int)(int8_t)(a >> k) * (int)(int8_t)(b >> k);
  return sum;
}

#include "nvidia.h"
