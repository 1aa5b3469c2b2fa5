// Rows of any block format as float32.
#include "backends/cpu/csrc/isa/formats/dequantize.h"

#include <cstring>

#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
void dequantize_row(float *y, const uint8_t *w, int n) {
    // By hand, since compilers convert float16 one by one.
    if constexpr (__is_same(T, F16)) {
        int i = 0;
        for (; i + lanes <= n; i += lanes) store(y + i, load_f16(w + 2 * i));
        store_first(y + i, load_first_f16(w + 2 * i, n - i), n - i);
    } else {
        const int n_blocks = n / T::block_size;
        for (size_t i = 0; i < size_t(n_blocks); ++i) {
            T::dequantize(w + i * T::block_bytes, y + i * T::block_size);
        }
    }
}
#define UNLADEN_DEQUANTIZE(T) template void dequantize_row<T>(float *, const uint8_t *, int);
UNLADEN_EACH_FORMAT(UNLADEN_DEQUANTIZE)
#undef UNLADEN_DEQUANTIZE

namespace {

template <class... T>
Kernels::Dequantize find(Types<T...>, const char *type) {
    Kernels::Dequantize found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = dequantize_row<T>) : void()), ...);
    return found;
}

}  // namespace

Kernels::Dequantize dequantize(const char *type) { return find(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
