// The port for the Metal shading language. A thread knows its place by arguments of the kernel, so
// ARGS and args pass them on.

#include <metal_stdlib>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef metal::float2 f2;
typedef metal::float4 f4;
typedef metal::uint2 u2;
typedef metal::uint4 u4;
typedef const device u32 *Bytes;

#define FN static inline
#define PRIVATE thread

#define IN_PARAM(i, T, name) const device T *name [[buffer(i)]]
#define OUT_PARAM(i, T, name) device T *name [[buffer(i)]]
#define STRUCT_PARAM(i, T, name) constant T &name [[buffer(i)]]
#define IN_BEGIN(i, T, name)
#define OUT_BEGIN(i, T, name)
#define STRUCT_BEGIN(i, T, name)
#define SHARED_BEGIN(T, name, size) threadgroup T name[size];
#define IN_ARG(T, name) const device T *name
#define OUT_ARG(T, name) device T *name
#define STRUCT_ARG(T, name) constant T &name
#define SHARED_ARG(T, name) threadgroup T *name
#define THREAD_ARG \
  u32 lane_, metal::uint3 group_, metal::uint3 n_groups_, u32 simd_, u32 n_simds_, u32 in_simd_,
#define THREAD_PASS lane_, group_, n_groups_, simd_, n_simds_, in_simd_,

#define KERNEL(name) \
  FN void name##_body(ARGS); \
  kernel void kernel_main(KERNEL_PARAMS, u32 lane_ [[thread_index_in_threadgroup]], \
                          metal::uint3 group_ [[threadgroup_position_in_grid]], \
                          metal::uint3 n_groups_ [[threadgroups_per_grid]], \
                          u32 simd_ [[simdgroup_index_in_threadgroup]], \
                          u32 n_simds_ [[simdgroups_per_threadgroup]], \
                          u32 in_simd_ [[thread_index_in_simdgroup]]) { \
    KERNEL_BEGIN name##_body(args); \
  } \
  FN void name##_body(ARGS)

#define LANE lane_
#define GROUP_X (group_.x)
#define GROUP_Y (group_.y)
#define GROUP_Z (group_.z)
#define N_GROUPS_X (n_groups_.x)
#define N_GROUPS_Z (n_groups_.z)
#define BARRIER() metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup)

#define SUBGROUP simd_
#define N_SUBGROUPS n_simds_
#define IN_SUBGROUP in_simd_
#define subgroup_add(x) metal::simd_sum(x)
#define subgroup_max(x) metal::simd_max(x)
#define subgroup_max_u32(x) metal::simd_max((u32)(x))

#define F2(x, y) metal::float2(x, y)
#define F4(x, y, z, w) metal::float4(x, y, z, w)
#define U2(x, y) metal::uint2(x, y)
#define U4(x, y, z, w) metal::uint4(x, y, z, w)
#define f4_dot(a, b) metal::dot(a, b)
#define as_f32(bits) as_type<float>((u32)(bits))
#define as_u32(x) as_type<u32>((float)(x))
#define u32_of(x) ((u32)(int)(x))
#define i8_of(bits) ((int)(char)(bits))

#define load_u8(b, at) ((u32)((const device u8 *)(b))[at])
#define load_u16(b, at) ((u32)((const device u16 *)(b))[(at) >> 1])
#define load_u32(b, at) (((const device u32 *)(b))[(at) >> 2])
#define load_u64(b, at) (((const device u2 *)(b))[(at) >> 3])
#define load_u128(b, at) (((const device u4 *)(b))[(at) >> 4])
#define store_u16(b, at, bits) (((device u16 *)(b))[(at) >> 1] = (u16)(bits))
#define store_u32(b, at, bits) (((device u32 *)(b))[(at) >> 2] = (bits))

// Copies that are done at once.
#define copy_async(to, i, from, at) ((to)[i] = load_u128(from, at))
#define copy_commit()
#define copy_wait(n)

#define sqrt_f32(x) metal::precise::sqrt(x)
#define log_f32(x) metal::precise::log(x)
#define fma_f32(a, b, c) metal::fma(a, b, c)
#define round_f32(x) metal::rint(x)
#define floor_f32(x) metal::floor(x)
#define abs_f32(x) metal::fabs(x)
#define ones_of(bits) metal::popcount(bits)

FN float f16_to_f32(u32 bits) { return (float)as_type<half>((u16)bits); }
FN u32 f32_to_f16(float x) { return as_type<u16>((half)x); }

FN int dot_i8(u32 a, u32 b, int sum) {
  metal::char4 x = as_type<metal::char4>(a), y = as_type<metal::char4>(b);
  return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}
