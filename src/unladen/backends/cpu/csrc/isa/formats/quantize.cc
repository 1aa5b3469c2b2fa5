// Rows of float32 as blocks of any format that can be written.
#include <cstring>

#include "backends/cpu/csrc/isa/contract/level.h"
#include "backends/cpu/csrc/quantize/all.h"
#include "backends/cpu/csrc/isa/formats/all.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// to[i] lane l = from[l][i] for i < n, a multiple of `lanes`.
void gather(vec *to, const float *const *from, int n) {
    for (int i = 0; i < n; i += lanes) {
        for (int l = 0; l < lanes; ++l) to[i + l] = load(from[l] + i);
        transpose(to + i);
    }
}

// to[l][i] = from[i] lane l for i < n and the first n_blocks lanes.
void scatter(uint8_t *to, const bvec *from, int n, int n_blocks) {
    for (int l = 0; l < n_blocks; ++l, to += n) {
        for (int i = 0; i < n; ++i) to[i] = from[i][l];
    }
}

// The mean squares of `lanes` rows, each summed in the order of its numbers.
vec mean_squares(const float *const *rows, int n) {
    vec sum = {}, x[32];
    for (int i = 0; i < n; i += 32) {
        const float *from[lanes];
        for (int l = 0; l < lanes; ++l) from[l] = rows[l] + i;
        gather(x, from, 32);
        for (int k = 0; k < 32; ++k) sum += x[k] * x[k];
    }
    return sum / float(n);
}

constexpr float largest_float = 0x1.fffffep127f;

// Whether no number is NaN or larger than `bound` in magnitude.
bool within(const float *x, size_t n, float bound) {
    const ivec limit = (ivec)splat(bound);
    ivec beyond = {};
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) beyond |= (ivec)magnitude(load(x + i)) > limit;
    return !any(beyond | ((ivec)magnitude(load_first(x + i, int(n - i))) > limit));
}

// Writes up to `lanes` blocks at a time. Returns false if a scale is too large for float16.
template <class T>
bool quantize_rows(uint8_t *to, const QuantizeArgs &args) {
    constexpr int n = T::block_size;
    const int per_row = args.n_cols / n, n_blocks = args.n_rows * per_row;
    alignas(64) vec x[n], importance[n];
    alignas(64) bvec bytes[T::block_bytes];
    vec squares = {};
    if constexpr (requires { Quantizer<T>::weighs_by_row; }) {
        const float *rows[lanes];
        for (int l = 0; l < lanes; ++l)
            rows[l] = args.x + size_t(l < args.n_rows ? l : 0) * args.n_cols;
        if (args.importance) squares = mean_squares(rows, args.n_cols);
    }
    ivec wrong = {};
    for (int first = 0; first < n_blocks; first += lanes, to += lanes * T::block_bytes) {
        const float *from[lanes], *weights[lanes];
        vec row_square = {};
        for (int l = 0; l < lanes; ++l) {
            // Lanes after the last block repeat it.
            const int block = first + l < n_blocks ? first + l : n_blocks - 1;
            from[l] = args.x + size_t(block) * n;
            weights[l] = args.importance ? args.importance + size_t(block % per_row) * n : nullptr;
            row_square[l] = squares[block / per_row];
        }
        gather(x, from, n);
        if (args.importance) gather(importance, weights, n);
        Tile tile{x, args.importance ? importance : nullptr, row_square, bytes};
        Quantizer<T>::quantize(tile);
        wrong |= tile.wrong;
        scatter(to, bytes, T::block_bytes, n_blocks - first < lanes ? n_blocks - first : lanes);
    }
    return !any(wrong);
}

template <class T>
bool quantize_all(uint8_t *to, const QuantizeArgs &args) {
    // Larger numbers have no scale in float16, and the sums of searches would overflow.
    constexpr float bound = requires { Quantizer<T>::any_size; } ? largest_float : 1e10f;
    if (!within(args.x, size_t(args.n_rows) * args.n_cols, bound)) return false;
    const size_t row_bytes = size_t(args.n_cols / T::block_size) * T::block_bytes;
    for (int row = 0; row < args.n_rows; row += lanes) {
        const int n_rows = args.n_rows - row < lanes ? args.n_rows - row : lanes;
        const float *x = args.x + size_t(row) * args.n_cols;
        if (!quantize_rows<T>(to + row * row_bytes, {x, args.importance, n_rows, args.n_cols}))
            return false;
    }
    return true;
}

template <class T>
bool convert_all(uint8_t *to, const QuantizeArgs &args) {
    const size_t n = size_t(args.n_rows) * args.n_cols, whole = n / lanes * lanes;
    ivec wrong = {};
    for (size_t i = 0; i < whole; i += lanes)
        wrong |= Quantizer<T>::convert(to + i * T::block_bytes, load(args.x + i));
    if (whole < n) {
        uint8_t last[lanes * T::block_bytes];
        wrong |= Quantizer<T>::convert(last, load_first(args.x + whole, int(n - whole)));
        std::memcpy(to + whole * T::block_bytes, last, (n - whole) * T::block_bytes);
    }
    return !any(wrong);
}

template <class T>
Kernels::Quantize quantizer() {
    if constexpr (requires(Tile &tile) { Quantizer<T>::quantize(tile); }) return quantize_all<T>;
    if constexpr (requires(vec x) { Quantizer<T>::convert(nullptr, x); }) return convert_all<T>;
    return nullptr;
}

template <class... T>
Kernels::Quantize find(Types<T...>, const char *type) {
    Kernels::Quantize found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = quantizer<T>()) : void()), ...);
    return found;
}

}  // namespace

bool finite(const float *x, size_t n) { return within(x, n, largest_float); }

Kernels::Quantize quantize(const char *type) { return find(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
