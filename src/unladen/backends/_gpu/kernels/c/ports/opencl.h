// The port for OpenCL C 1.2 and later, also for SYCL, which takes OpenCL C. An argument in memory
// is a buffer and an offset, since sub-buffers need not begin where a range does.

#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif

typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef float2 f2;
typedef float4 f4;
typedef uint2 u2;
typedef uint4 u4;
typedef const __global uint *Bytes;

// Always inlined: PoCL 3.1 loses what a function of its own stores in shared arrays.
#define FN static inline __attribute__((always_inline))
#define PRIVATE __private

#define IN_PARAM(i, T, name) const __global uchar *name##_buffer, ulong name##_offset
#define OUT_PARAM(i, T, name) __global uchar *name##_buffer, ulong name##_offset
#define STRUCT_PARAM(i, T, name) T name
#define IN_BEGIN(i, T, name) \
  const __global T *name = (const __global T *)(name##_buffer + name##_offset);
#define OUT_BEGIN(i, T, name) __global T *name = (__global T *)(name##_buffer + name##_offset);
#define STRUCT_BEGIN(i, T, name)
#define SHARED_BEGIN(T, name, size) __local T name[size];
#define IN_ARG(T, name) const __global T *name
#define OUT_ARG(T, name) __global T *name
#define STRUCT_ARG(T, name) T name
#define SHARED_ARG(T, name) __local T *name
#define THREAD_ARG
#define THREAD_PASS

#define KERNEL(name) \
  FN void name##_body(ARGS); \
  __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void kernel_main(KERNEL_PARAMS) { \
    KERNEL_BEGIN name##_body(args); \
  } \
  FN void name##_body(ARGS)

#define LANE ((u32)get_local_id(0))
#define GROUP_X ((u32)get_group_id(0))
#define GROUP_Y ((u32)get_group_id(1))
#define GROUP_Z ((u32)get_group_id(2))
#define N_GROUPS_X ((u32)get_num_groups(0))
#define N_GROUPS_Z ((u32)get_num_groups(2))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)

#define SUBGROUP ((u32)get_sub_group_id())
#define N_SUBGROUPS ((u32)get_num_sub_groups())
#define IN_SUBGROUP ((u32)get_sub_group_local_id())
#define subgroup_add(x) sub_group_reduce_add(x)
#define subgroup_max(x) sub_group_reduce_max(x)
#define subgroup_max_u32(x) sub_group_reduce_max((u32)(x))

#define F2(x, y) ((float2)((x), (y)))
#define F4(x, y, z, w) ((float4)((x), (y), (z), (w)))
#define U2(x, y) ((uint2)((x), (y)))
#define U4(x, y, z, w) ((uint4)((x), (y), (z), (w)))
#define f4_dot(a, b) dot(a, b)
#define as_f32(bits) as_float((u32)(bits))
#define as_u32(x) as_uint((float)(x))
#define u32_of(x) as_uint((int)(x))
#define i8_of(bits) ((int)(char)(bits))

#define load_u8(b, at) ((u32)((const __global uchar *)(b))[at])
#define load_u16(b, at) ((u32)((const __global ushort *)(b))[(at) >> 1])
#define load_u32(b, at) (((const __global uint *)(b))[(at) >> 2])
#define load_u64(b, at) (((const __global uint2 *)(b))[(at) >> 3])
#define load_u128(b, at) (((const __global uint4 *)(b))[(at) >> 4])
#define store_u16(b, at, bits) (((__global ushort *)(b))[(at) >> 1] = (ushort)(bits))
#define store_u32(b, at, bits) (((__global uint *)(b))[(at) >> 2] = (bits))

// Copies that are done at once.
#define copy_async(to, i, from, at) ((to)[i] = load_u128(from, at))
#define copy_commit()
#define copy_wait(n)

#define sqrt_f32(x) sqrt(x)
#define log_f32(x) log(x)
// Where fma isn't an instruction it is many.
#ifdef FP_FAST_FMAF
#define fma_f32(a, b, c) fma(a, b, c)
#else
#define fma_f32(a, b, c) ((a) * (b) + (c))
#endif
#define round_f32(x) rint(x)
#define floor_f32(x) floor(x)
#define abs_f32(x) fabs(x)
#define ones_of(bits) popcount(bits)

FN float f16_to_f32(u32 bits) {
  ushort stored = (ushort)bits;
  return vload_half(0, (const __private half *)&stored);
}

FN u32 f32_to_f16(float x) {
  ushort stored;
  vstore_half_rte(x, 0, (__private half *)&stored);
  return stored;
}

FN int dot_i8(u32 a, u32 b, int sum) {
#ifdef HAS_INT_DOT
  return dot_acc_sat_4x8packed_ss_int(a, b, sum);
#else
  char4 x = as_char4(a), y = as_char4(b);
  return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
#endif
}
