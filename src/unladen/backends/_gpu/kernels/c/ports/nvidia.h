// Primitives of NVIDIA's chips, for kernels that no other port compiles; cuda.h includes them. A
// warp of 32 threads runs each one together: thread 4 g + t has the parts that the PTX ISA gives
// it. A register of a matrix has two numbers of 16 bits or four of 8. The emulator's bodies are in
// tests/emulator/nvidia.h.

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

// Loads at a place that is known at run time and `more` bytes, or elements, that the compiler knows:
// loads from one place share its address.
#define load_u32_from(b, at, more) (((const u32 *)((const u8 *)(b) + (at)))[(more) / 4u])
#define load_u128_from(b, at, more) (((const u4 *)((const u8 *)(b) + (at)))[(more) / 16u])
#define element_from(a, i, more) (((a) + (i))[more])

// Four bytes of a and b: the four lowest digits of `chosen`, of four bits, number them from 0, the
// lowest of a, to 7, the highest of b.
#define permute_bytes(a, b, chosen) __byte_perm(a, b, chosen)

// The value of the thread of this warp whose number differs in the bits of `mask`.
FN float shuffle_xor(float x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, (int)mask); }
FN int shuffle_xor_int(int x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, (int)mask); }

#if __CUDA_ARCH__ >= 800
// Four matrices of 8 rows of 16 bytes from a shared array of u4: thread 8 j + r names the element
// that is row r of matrix j, and gets word t of row g of matrix j in out[j].
FN void load_matrices_at(u32 *out, const u4 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}

// The same with matrices of 8 by 8 numbers of 16 bits transposed.
FN void load_transposed_at(u32 *out, const u4 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}

#define load_matrices(out, tile, i) load_matrices_at(out, &(tile)[i])
#define load_transposed(out, tile, i) load_transposed_at(out, &(tile)[i])

// c += a b for a of 16 by 16 float16 and b of 16 by 8, in float32. c[0], c[1] are columns 2 t and 2
// t + 1 of row g, the others those of row g + 8. a[0] has columns 2 t and 2 t + 1 of row g, a[1] of
// row g + 8, a[2] and a[3] are 8 columns further; b[0] has rows 2 t and 2 t + 1 of column g, b[1]
// is 8 rows further.
FN void mma_f16(float *c, const u32 *a, const u32 *b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for bfloat16.
FN void mma_bf16(float *c, const u32 *a, const u32 *b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// c += a b for a of 16 by 32 int8 and b of 32 by 8. a[0] has columns 4 t to 4 t + 3 of row g, a[1]
// of row g + 8, a[2] and a[3] are 16 columns further; b[0] has rows 4 t to 4 t + 3 of column g,
// b[1] is 16 rows further.
FN void mma_i8(int *c, const u32 *a, const u32 *b) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for 16 columns of a: a[0] and a[1] of that, and b[0].
FN void mma_i8_half(int *c, const u32 *a, const u32 *b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

// Two numbers as float16 in one word, the first in the low half.
FN u32 halves_of(float low, float high) {
  u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// The same as bfloat16.
FN u32 brains_of(float low, float high) {
  u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
#endif

#if __CUDA_ARCH__ == 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Products of four neighbouring warps (sm_90a): c += a b for a of 64 by 16 numbers of 16 bits, 16
// rows in the registers of each warp as mma_f16 takes them, and b of 16 by 64, in shared memory. c
// has what mma_f16 leaves for each eight columns. The descriptor names b: rows of sixteen bytes,
// eight columns of b one after another; `leading` bytes further are the next eight numbers of a
// column, `stride` bytes further the next eight columns. Neither c nor a may be used before
// wgmma_wait, nor may b be overwritten; wgmma_begin comes before the first product, after c and a
// were set.
typedef unsigned long long Descriptor;

FN Descriptor descriptor_at(const u4 *first, u32 leading, u32 stride) {
  const u32 address = (u32)__cvta_generic_to_shared(first);
  return (Descriptor)((address & 0x3ffffu) >> 4) | (Descriptor)(leading >> 4) << 16
         | (Descriptor)(stride >> 4) << 32;
}

#define matrix_descriptor(tile, i, leading, stride) descriptor_at(&(tile)[i], leading, stride)
#define wgmma_begin() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define wgmma_commit() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define wgmma_wait() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
// Copies that this thread waited for can be read by the warps' products after a barrier.
#define show_copies() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

#define UNLADEN_WGMMA(name, type) \
  FN void name##_at(float *c, const u32 *a, Descriptor b) { \
    asm volatile( \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, " \
        "%8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, " \
        "%24, %25, %26, %27, %28, %29, %30, %31}, " \
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), \
          "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), \
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), \
          "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), \
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), \
          "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), \
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), \
          "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)); \
  }

UNLADEN_WGMMA(wgmma_f16, "f16")
UNLADEN_WGMMA(wgmma_bf16, "bf16")
#define wgmma_f16(c, a, tile, b) wgmma_f16_at(c, a, b)
#define wgmma_bf16(c, a, tile, b) wgmma_bf16_at(c, a, b)
#endif

// Programmatic dependent launch: wait_for_previous returns when the launch before this one is done
// and its results can be read; allow_next lets the next launch begin. A kernel that calls neither
// begins and ends like any other.
#if __CUDA_ARCH__ >= 900
#define wait_for_previous() asm volatile("griddepcontrol.wait;" ::: "memory")
#define allow_next() asm volatile("griddepcontrol.launch_dependents;")
#else
#define wait_for_previous()
#define allow_next()
#endif
