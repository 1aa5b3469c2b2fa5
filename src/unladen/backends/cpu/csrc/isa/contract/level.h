// Names that differ per instruction-set level; included by the .cc files below isa/ only.
#pragma once

#ifndef UNLADEN_ISA
#error "files under isa/ are compiled once per level, with UNLADEN_ISA defined"
#endif

#define UNLADEN_CONCAT_(a, b) a##b
#define UNLADEN_CONCAT(a, b) UNLADEN_CONCAT_(a, b)

#if defined(__x86_64__)
#include <immintrin.h>
#endif
// The instructions of integer products: AVX-512 with VNNI; AVX2; NEON; or plain C++.
#if defined(__AVX512VNNI__)
#define UNLADEN_AVX512 1
#elif defined(__AVX2__)
#define UNLADEN_AVX2 1
#endif
// Whether output heads are screened. The code for this is in screening/ and, behind this switch, in
// the headers of the formats that can be divided.
#if defined(UNLADEN_AVX512) || defined(UNLADEN_AVX2)
#define UNLADEN_SCREENS 1
#endif
// Every 64-bit Arm processor has NEON. Level portable is plain C++ there, too.
#if defined(__aarch64__) && !defined(UNLADEN_PORTABLE)
#define UNLADEN_NEON 1
#include <arm_neon.h>
#endif

// The functions that .cc files define for table.cc.
#include "backends/cpu/csrc/isa/contract/kernels.h"

namespace unladen::cpu::UNLADEN_ISA {

// rows/rows.cc
void rms_norm(float *y, const float *x, const float *w, int n, float eps);
void layer_norm(float *y, const float *x, const float *w, const float *b, int n, float eps);
void rope(float *y, const float *x, const float *cs, int n_heads, int head_dim, int n_rot,
          bool neox);
void activate(float *y, const float *x, int n, Activation act);
void glu(float *y, const float *gate, const float *up, int n, Activation act);
void add(float *y, const float *a, const float *b, int n);
void scale_add(float *y, const float *x, int n, float s);
void largest(float *y, const float *x, int n);
void softcap(float *y, const float *x, int n, float cap);

// attention/attention.cc and store.cc
void kv_store(const KVView &kv, int block, int slot, const float *k, const float *v);
size_t attention_scratch_floats(int n_heads_per_kv, int n_tasks, int k_dim, int v_dim,
                                int block_tokens);
void attention(const AttentionArgs &args);
void attention_merge(float *out, const float *parts, int n_parts, int n_heads, int v_dim);

// attention/listed_rows.cc
size_t attention_rows_scratch_floats(int n_heads, int k_dim, int v_dim);
void attention_rows(const AttentionRowsArgs &args);

// rows/recurrent.cc
void conv1d(const ConvArgs &args);
void ssm_scan(const SsmArgs &args, float *scratch);
void linear_attention(const LinearAttentionArgs &args, float *scratch);
void rwkv_mix(const RwkvArgs &args, float *scratch);

// activations/round.cc
const Packer *packer(ActFormat format);

// products/choose.cc
const Linear *linear(const char *type, bool precise);
const Linear *screened_linear(const char *type);

// formats/dequantize.cc
Kernels::Dequantize dequantize(const char *type);

// formats/quantize.cc
Kernels::Quantize quantize(const char *type);
bool finite(const float *x, size_t n);

}  // namespace unladen::cpu::UNLADEN_ISA
