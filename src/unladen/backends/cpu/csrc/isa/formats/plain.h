// The formats without blocks: one number per weight, rounded to float32.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Plain {
    static constexpr int block_size = 1, block_bytes = sizeof(T);
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        *y = float(bits::load<T>(block));
    }
};

struct F32 : Plain<float> {
    static constexpr const char *name = "F32";
};

struct F64 : Plain<double> {
    static constexpr const char *name = "F64";
};

struct I8 : Plain<int8_t> {
    static constexpr const char *name = "I8";
};

struct I16 : Plain<int16_t> {
    static constexpr const char *name = "I16";
};

struct I32 : Plain<int32_t> {
    static constexpr const char *name = "I32";
};

struct I64 : Plain<int64_t> {
    static constexpr const char *name = "I64";
};

struct F16 {
    static constexpr const char *name = "F16";
    static constexpr int block_size = 1, block_bytes = 2;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        *y = bits::half(block);
    }
};

// The upper half of a float32.
struct BF16 {
    static constexpr const char *name = "BF16";
    static constexpr int block_size = 1, block_bytes = 2;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        *y = bits::float_of(uint32_t(bits::load<uint16_t>(block)) << 16);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
