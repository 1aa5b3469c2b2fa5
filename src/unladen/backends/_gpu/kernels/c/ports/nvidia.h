// Primitives of NVIDIA's chips, for kernels that no other port compiles; cuda.h includes them. A
// warp of 32 threads runs each one together: thread 4 g + t has the parts that the PTX ISA gives
// it. A register of a matrix has two numbers of 16 bits or four of 8. The emulator's bodies are in
// tests/emulator/nvidia.h.

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

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

// The value of the thread of this warp whose number differs in the bits of `mask`.
FN float shuffle_xor(float x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, (int)mask); }
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
