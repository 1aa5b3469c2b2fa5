// Primitives of NVIDIA's chips, for kernels that no other port compiles; cuda.h includes them. A
// warp of 32 threads runs each one together: thread 4 g + t has the parts that the PTX ISA gives
// it. A register of a matrix has two numbers of 16 bits or four of 8. The emulator's bodies are in
// tests/emulator/nvidia.h.

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

// An array of threads of a workgroup whose memory the launch gives.
#define LAUNCHED_BEGIN(T, name, size) extern __shared__ T name[];

// Loads at a place that is known at run time, and `more` bytes or elements that the compiler knows
// after it: loads from one place share its address.
#define load_u32_from(b, at, more) (((const u32 *)((const u8 *)(b) + (at)))[(more) / 4u])
#define load_u128_from(b, at, more) (((const u4 *)((const u8 *)(b) + (at)))[(more) / 16u])
#define element_from(a, i, more) (((a) + (i))[more])

#if __CUDA_ARCH__ >= 800
// copy_async of what is `more` bytes after byte `at`, to the element `later` elements after element
// i; the compiler knows both distances.
#define copy_async_from(to, i, later, from, at, more) \
  copy_16(&((to) + (i))[later], (const u8 *)(from) + (at) + (more))
#endif

// Four bytes of a and b: the four lowest digits of `chosen`, of four bits, number them from 0, the
// lowest of a, to 7, the highest of b.
#define permute_bytes(a, b, chosen) __byte_perm(a, b, chosen)

// The value of the thread of this warp whose number differs in the bits of `mask`.
FN float shuffle_xor(float x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, (int)mask); }
FN int shuffle_xor_int(int x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, (int)mask); }

#if __CUDA_ARCH__ >= 800
// Four matrices of 8 rows of 16 bytes from a shared array of u4: thread 8 j + r names the element
// that is row r of matrix j, and gets word t of row g of matrix j in out[j]. load_matrices_from:
// `more` elements after element i.
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
#define load_matrices_from(out, tile, i, more) load_matrices_at(out, &((tile) + (i))[more])
#define load_transposed(out, tile, i) load_transposed_at(out, &(tile)[i])

// c += a b for a of 16 by 16 float16 and b of 16 by 8, in float32. c[0], c[1] are columns 2 t and 2
// t + 1 of row g, the others those of row g + 8. a[0] has columns 2 t and 2 t + 1 of row g, a[1] of
// row g + 8, a[2] and a[3] are 8 columns further; b[0] has rows 2 t and 2 t + 1 of column g, b[1]
// is 8 rows further.
FN void mma_f16(float *c, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for bfloat16.
FN void mma_bf16(float *c, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// c += a b for a of 16 by 32 int8 and b of 32 by 8. a[0] has columns 4 t to 4 t + 3 of row g, a[1]
// of row g + 8, a[2] and a[3] are 16 columns further; b[0] has rows 4 t to 4 t + 3 of column g,
// b[1] is 16 rows further.
FN void mma_i8(int *c, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for 16 columns of a: a[0] and a[1] of that, and b[0].
FN void mma_i8_half(int *c, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

// The threads of a warp meet, and see what each of them did.
#define sync_warp() __syncwarp()

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

// Sums, products, and a b + c, of two numbers of float16 in a word, each rounded once.
FN u32 add_halves(u32 a, u32 b) {
  u32 bits;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(a), "r"(b));
  return bits;
}

FN u32 mul_halves(u32 a, u32 b) {
  u32 bits;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(a), "r"(b));
  return bits;
}

FN u32 fma_halves(u32 a, u32 b, u32 c) {
  u32 bits;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(bits) : "r"(a), "r"(b), "r"(c));
  return bits;
}
#endif

#if __CUDA_ARCH__ == 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Products of four neighbouring warps (sm_90a): c += a b for a of 64 by 16 numbers of 16 bits, 16
// rows in the registers of each warp as mma_f16 takes them, and b of 16 by n, in shared memory; n
// is 32, 64 or 128. c has what mma_f16 leaves for each eight columns. The descriptor names b: rows
// of sixteen bytes, eight columns of b one after another; `leading` bytes further are the next
// eight numbers of a column, `stride` bytes further the next eight columns. All four warps come by.
// wgmma_begin comes before the first product, after c and a were set. wgmma_commit ends a group of
// products. wgmma_wait(n, c, n_words, a) waits for all groups. Neither c nor the words of a may be
// changed before, nor may b be overwritten.
//
// wgmma_begin_more(n_words, a) comes before products that are added to the same c while those of a
// group before are under way, after a was set. wgmma_wait_but(n_left, n_words, a) waits for all
// groups but the last n_left; `a` are words of a group that ends so.
typedef unsigned long long Descriptor;

FN Descriptor descriptor_at(const u4 *first, u32 leading, u32 stride) {
  const u32 address = (u32)__cvta_generic_to_shared(first);
  return (Descriptor)((address & 0x3ffffu) >> 4) | (Descriptor)((leading & 0x3ffffu) >> 4) << 16
         | (Descriptor)((stride & 0x3ffffu) >> 4) << 32;
}

// Keeps the compiler from moving a use of c across: to it a product is done when it begins. For the
// same reason wgmma_wait reads the words of a, so that no other number gets their registers before.
template <u32 n> FN void hold_registers(float *c) {
  UNROLL for (u32 i = 0u; i < n / 2u; i++) asm volatile("" : "+f"(c[i])::"memory");
}

template <u32 n> FN void begin_products(float *c) {
  hold_registers<n>(c);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

template <u32 n_words> FN void hold_words(const u32 *a) {
  UNROLL for (u32 i = 0u; i < n_words; i++) asm volatile("" ::"r"(a[i]) : "memory");
}

// Leaves c alone: a use of its registers would make ptxas wait for the products under way.
template <u32 n_words> FN void begin_more_products(const u32 *a) {
  hold_words<n_words>(a);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

template <u32 n, u32 n_words> FN void end_products(float *c, const u32 *a) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  hold_registers<n>(c);
  hold_words<n_words>(a);
}

template <u32 n_left, u32 n_words> FN void end_other_products(const u32 *a) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n_left) : "memory");
  hold_words<n_words>(a);
}

// `value`, which the compiler can't know before the words of a: it adds some of their bits, and a
// workgroup of one row has none of those. So loads at such an address come after what made these
// words.
template <u32 n_words> FN u32 add_no_bits(const u32 *a, u32 value) {
  u32 bits = 0u, sum;
  UNROLL for (u32 i = 0u; i < n_words; i++) bits ^= a[i];
  asm("{\n"
      ".reg .u32 last;\n"
      "mov.u32 last, %%ntid.y;\n"
      "sub.u32 last, last, 1;\n"
      "and.b32 last, last, %1;\n"
      "add.u32 %0, %2, last;\n"
      "}"
      : "=r"(sum)
      : "r"(bits), "r"(value));
  return sum;
}

#define value_after(n_words, a, value) add_no_bits<n_words>(a, value)
#define matrix_descriptor(tile, i, leading, stride) descriptor_at(&(tile)[i], leading, stride)
#define wgmma_begin(n, c) begin_products<n>(c)
#define wgmma_begin_more(n_words, a) begin_more_products<n_words>(a)
#define wgmma_commit() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define wgmma_wait(n, c, n_words, a) end_products<n, n_words>(c, a)
#define wgmma_wait_but(n_left, n_words, a) end_other_products<n_left, n_words>(a)

#define UNLADEN_8(c, i) \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define UNLADEN_16(c, i) UNLADEN_8(c, i), UNLADEN_8(c, i + 8)
#define UNLADEN_32(c, i) UNLADEN_16(c, i), UNLADEN_16(c, i + 16)
#define UNLADEN_64(c, i) UNLADEN_32(c, i), UNLADEN_32(c, i + 32)
#define UNLADEN_NAMES_16 \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define UNLADEN_NAMES_32 \
  UNLADEN_NAMES_16 ", " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define UNLADEN_NAMES_64 \
  UNLADEN_NAMES_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"

// c is held in `half` registers, whose numbers come first; `words` and `b` are those after them.
#define UNLADEN_WGMMA(name, type, n, half, words, b) \
  template <> __device__ __forceinline__ void name<n>(float *c, const u32 *a, Descriptor at) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
                 " {" UNLADEN_NAMES_##half "}, {" words "}, " b ", 1, 1, 1, 0;" \
                 : UNLADEN_##half(c, 0) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(at) \
                 : "memory"); \
  }
#define UNLADEN_WGMMAS(name, type) \
  template <u32 n> __device__ __forceinline__ void name(float *c, const u32 *a, Descriptor at); \
  UNLADEN_WGMMA(name, type, 32, 16, "%16, %17, %18, %19", "%20") \
  UNLADEN_WGMMA(name, type, 64, 32, "%32, %33, %34, %35", "%36") \
  UNLADEN_WGMMA(name, type, 128, 64, "%64, %65, %66, %67", "%68")

UNLADEN_WGMMAS(wgmma_f16_at, "f16")
UNLADEN_WGMMAS(wgmma_bf16_at, "bf16")
#define wgmma_f16(n, c, a, tile, b) wgmma_f16_at<n>(c, a, b)
#define wgmma_bf16(n, c, a, tile, b) wgmma_bf16_at<n>(c, a, b)
#endif

#if __CUDA_ARCH__ >= 900
// Barriers that count arrivals and bytes, elements of a shared array of u2 (mbarrier). One thread
// begins them and shows them; others use them after a barrier of the workgroup. A phase ends when n
// threads have arrived and the copies have brought the bytes that they announced (expect_bytes is
// an arrival, too); the next phase begins then. wait_for_arrivals waits for the end of the phase
// with this parity, which is that of the phase under way or of the one before it. What threads did
// before they arrived comes before what those do that waited.
//
// copy_in_bulk begins to copy n bytes, a multiple of 16, from byte `at` on to the elements of a
// shared array of u4 from number i on. The element k of `array` is the barrier. One thread does so
// for all.
FN u32 shared_address(const void *of) { return (u32)__cvta_generic_to_shared(of); }

FN void begin_arrivals_at(u2 *at, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(n)
               : "memory");
}

FN void arrive_at_one(u2 *at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(at)) : "memory");
}

FN void expect_bytes_at(u2 *at, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(at)),
               "r"(n)
               : "memory");
}

FN bool has_ended(u2 *at, u32 parity) {
  u32 ended;
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
      "selp.u32 %0, 1, 0, ended;\n"
      "}"
      : "=r"(ended)
      : "r"(shared_address(at)), "r"(parity)
      : "memory");
  return ended != 0u;
}

FN void copy_many(u4 *to, const u8 *from, u32 n, u2 *at) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(n), "r"(shared_address(at))
      : "memory");
}

#define begin_arrivals(array, i, n) begin_arrivals_at(&(array)[i], n)
#define show_arrivals() \
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory")
#define arrive_at(array, i) arrive_at_one(&(array)[i])
#define expect_bytes(array, i, n) expect_bytes_at(&(array)[i], n)
#define wait_for_arrivals(array, i, parity) \
  while (!has_ended(&(array)[i], parity)) {}
#define copy_in_bulk(to, i, from, at, n, array, k) \
  copy_many(&(to)[i], (const u8 *)(from) + (at), n, &(array)[k])
// What threads stored, or copied and waited for, can be read by matrix units after a barrier.
#define show_copies() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#endif

// Programmatic dependent launch, in kernels with the constant PDL. begin_early comes first: it lets
// the next launch begin. wait_for_previous returns when the launch before this one is done; only
// then may a kernel read what other kernels or uploads write, or write anything.
#if __CUDA_ARCH__ >= 900
#define begin_early() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define wait_for_previous() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define begin_early()
#define wait_for_previous()
#endif

// Begins to bring n bytes from byte `at` on to the second-level cache; both are multiples of 16.
// One thread does so for all.
#if __CUDA_ARCH__ >= 900
FN void prefetch_bytes(const u8 *from, u32 n) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
               "r"(n)
               : "memory");
}

#define prefetch(b, at, n) prefetch_bytes((const u8 *)(b) + (at), n)
#else
#define prefetch(b, at, n) ((void)(b), (void)(at), (void)(n))
#endif
