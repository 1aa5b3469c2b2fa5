// The port for CUDA C++ as NVRTC compiles it, without any header of the toolkit.

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

// A multiprocessor must have registers for so many workgroups; 0: no number is given. A kernel may
// have another one among its constants. With one the compiler uses the registers that it leaves,
// and issues loads before what uses the first of them; without one it saves registers.
constexpr u32 MIN_GROUPS = 0u;

#define KERNEL(name) \
  FN void name##_body(ARGS); \
  extern "C" __global__ void __launch_bounds__(WG, MIN_GROUPS) kernel_main(KERNEL_PARAMS) { \
    KERNEL_BEGIN name##_body(args); \
  } \
  FN void name##_body(ARGS)

#define LANE (threadIdx.x)
#define GROUP_X (blockIdx.x)
#define GROUP_Y (blockIdx.y)
#define GROUP_Z (blockIdx.z)
#define N_GROUPS_X (gridDim.x)
#define N_GROUPS_Z (gridDim.z)
#define BARRIER() __syncthreads()

#define SUBGROUP (threadIdx.x / 32u)
#define N_SUBGROUPS ((WG + 31u) / 32u)
#define IN_SUBGROUP (threadIdx.x % 32u)

FN float subgroup_add(float x) {
  for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(0xffffffffu, x, m);
  return x;
}

FN float subgroup_max(float x) {
  for (int m = 16; m; m >>= 1) {
    const float other = __shfl_xor_sync(0xffffffffu, x, m);
    x = other > x ? other : x;
  }
  return x;
}

FN float as_f32(u32 bits) { return __uint_as_float(bits); }
FN u32 as_u32(float x) { return __float_as_uint(x); }
FN u32 u32_of(int x) { return (u32)x; }

#define load_u8(b, at) ((u32)((const u8 *)(b))[at])
#define load_u16(b, at) ((u32)((const u16 *)(b))[(at) >> 1])
#define load_u32(b, at) (((const u32 *)(b))[(at) >> 2])
#define load_u64(b, at) (((const u2 *)(b))[(at) >> 3])
#define load_u128(b, at) (((const u4 *)(b))[(at) >> 4])
#define store_u16(b, at, bits) (((u16 *)(b))[(at) >> 1] = (u16)(bits))
#define store_u32(b, at, bits) (((u32 *)(b))[(at) >> 2] = (bits))

// copy_async copies 16 bytes, from byte `at` on, to element i of a shared array of u4. copy_commit
// ends a group of copies; copy_wait(n), with n known to the compiler, waits until at most n groups
// of this thread are left. Other threads see the copies after a barrier.
#if __CUDA_ARCH__ >= 800
FN void copy_16(u4 *to, const u8 *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

#define copy_async(to, i, from, at) copy_16(&(to)[i], (const u8 *)(from) + (at))
#define copy_commit() asm volatile("cp.async.commit_group;" ::: "memory")
#define copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#else
#define copy_async(to, i, from, at) ((to)[i] = load_u128(from, at))
#define copy_commit()
#define copy_wait(n)
#endif

#define sqrt_f32(x) __fsqrt_rn(x)
#define log_f32(x) logf(x)
#define fma_f32(a, b, c) __fmaf_rn(a, b, c)
#define round_f32(x) rintf(x)
#define floor_f32(x) floorf(x)
#define abs_f32(x) fabsf(x)
#define ones_of(bits) ((u32)__popc(bits))

FN float f16_to_f32(u32 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
  return x;
}

FN u32 f32_to_f16(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

FN int dot_i8(u32 a, u32 b, int sum) {
#if __CUDA_ARCH__ >= 610
  return __dp4a((int)a, (int)b, sum);
#else
  for (int k = 0; k < 32; k += 8) sum += (signed char)(a >> k) * (signed char)(b >> k);
  return sum;
#endif
}

#include "nvidia.h"
