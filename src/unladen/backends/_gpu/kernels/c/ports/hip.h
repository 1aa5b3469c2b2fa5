// The port for HIP as hiprtc compiles it. Subgroups are halves of a wave of 64 threads on CDNA and
// GCN, so that they have 32 threads everywhere.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#define FN static __device__ __forceinline__
#define PRIVATE

#include "vectors.h"

typedef const u32 *Bytes;

#define IN_PARAM(i, T, name) const T *name
#define OUT_PARAM(i, T, name) T *name
#define STRUCT_PARAM(i, T, name) const T name
#define IN_BEGIN(i, T, name)
#define OUT_BEGIN(i, T, name)
#define STRUCT_BEGIN(i, T, name)
#define SHARED_BEGIN(T, name, size) __shared__ T name[size];
#define IN_ARG(T, name) const T *name
#define OUT_ARG(T, name) T *name
#define STRUCT_ARG(T, name) const T &name
#define SHARED_ARG(T, name) T *name
#define THREAD_ARG
#define THREAD_PASS

#define KERNEL(name) \
  FN void name##_body(ARGS); \
  extern "C" __global__ void __launch_bounds__(WG) kernel_main(KERNEL_PARAMS) { \
    KERNEL_BEGIN name##_body(args); \
  } \
  FN void name##_body(ARGS)

#define LANE ((u32)threadIdx.x)
#define GROUP_X ((u32)blockIdx.x)
#define GROUP_Y ((u32)blockIdx.y)
#define GROUP_Z ((u32)blockIdx.z)
#define N_GROUPS_X ((u32)gridDim.x)
#define N_GROUPS_Z ((u32)gridDim.z)
#define BARRIER() __syncthreads()

#define SUBGROUP (LANE / 32u)
#define N_SUBGROUPS ((WG + 31u) / 32u)
#define IN_SUBGROUP (LANE % 32u)

FN float subgroup_add(float x) {
  for (int m = 16; m; m >>= 1) x += __shfl_xor(x, m, 32);
  return x;
}

FN float subgroup_max(float x) {
  for (int m = 16; m; m >>= 1) {
    const float other = __shfl_xor(x, m, 32);
    x = other > x ? other : x;
  }
  return x;
}

FN u32 subgroup_max_u32(u32 x) {
  for (int m = 16; m; m >>= 1) {
    const u32 other = __shfl_xor(x, m, 32);
    x = other > x ? other : x;
  }
  return x;
}

FN float as_f32(u32 bits) { return __uint_as_float(bits); }
FN u32 as_u32(float x) { return __float_as_uint(x); }
FN u32 u32_of(int x) { return (u32)x; }
FN int i8_of(u32 bits) { return (signed char)bits; }

#define load_u8(b, at) ((u32)((const u8 *)(b))[at])
#define load_u16(b, at) ((u32)((const u16 *)(b))[(at) >> 1])
#define load_u32(b, at) (((const u32 *)(b))[(at) >> 2])
#define load_u64(b, at) (((const u2 *)(b))[(at) >> 3])
#define load_u128(b, at) (((const u4 *)(b))[(at) >> 4])
#define store_u16(b, at, bits) (((u16 *)(b))[(at) >> 1] = (u16)(bits))
#define store_u32(b, at, bits) (((u32 *)(b))[(at) >> 2] = (bits))

// Copies that are done at once.
#define copy_async(to, i, from, at) ((to)[i] = load_u128(from, at))
#define copy_commit()
#define copy_wait(n)

#define sqrt_f32(x) sqrtf(x)
#define log_f32(x) logf(x)
#define fma_f32(a, b, c) fmaf(a, b, c)
#define round_f32(x) rintf(x)
#define floor_f32(x) floorf(x)
#define abs_f32(x) fabsf(x)
#define ones_of(bits) ((u32)__builtin_popcount(bits))

FN float f16_to_f32(u32 bits) {
  union {
    u16 stored;
    _Float16 number;
  } half;
  half.stored = (u16)bits;
  return (float)half.number;
}

FN u32 f32_to_f16(float x) {
  union {
    u16 stored;
    _Float16 number;
  } half;
  half.number = (_Float16)x;
  return half.stored;
}

FN int dot_i8(u32 a, u32 b, int sum) {
// The chips with an instruction for it: INT_DOT in backends/hip/driver.py. A compiler refuses the
// instruction for any other.
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, sum, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || \
    defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__) || defined(__gfx1011__) || defined(__gfx1012__) || \
    defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || \
    defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || \
    defined(__gfx1036__)
  return __builtin_amdgcn_sdot4((int)a, (int)b, sum, false);
#else
  for (int k = 0; k < 32; k += 8) sum += (signed char)(a >> k) * (signed char)(b >> k);
  return sum;
#endif
}
