// Packs rows of float32 into the panels that linear_act.h describes.
#include <cstring>

#include "backends/cpu/csrc/isa/linear_act.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Quantizes n values to q in [-127, 127], nearest, ties to even, and returns the scale. Where x
// holds a NaN or an infinity so is the scale: no such value goes unseen.
float quantize(int8_t *q, const float *x, int n) {
    uint32_t largest = 0;  // of |x|, as its bit pattern: in that order NaN is above infinity
    for (int i = 0; i < n; ++i) {
        uint32_t pattern;
        std::memcpy(&pattern, x + i, sizeof pattern);
        pattern &= 0x7fffffffu;
        largest = pattern > largest ? pattern : largest;
    }
    float magnitude;
    std::memcpy(&magnitude, &largest, sizeof magnitude);
    const float inverse = magnitude >= 1e-30f ? 127.0f / magnitude : 0.0f;
    for (int i = 0; i < n; ++i) {
        // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the mantissa.
        const float shifted = x[i] * inverse + 0x1.8p23f;
        uint32_t pattern;
        std::memcpy(&pattern, &shifted, sizeof pattern);
        q[i] = int8_t(pattern);
    }
    return magnitude / 127.0f;
}

int sum(const int8_t *q, int n) {
    int total = 0;
    for (int i = 0; i < n; ++i) total += q[i];
    return total;
}

template <int C>
void place(int8_t *q, int column, int k, const int8_t *values, int n) {
    for (int i = 0; i < n; i += 4) std::memcpy(q + size_t(k + i) * C + 4 * column, values + i, 4);
}

// Writers: one column of one panel; x is null for a column that the last panel lacks.
template <int C>
struct F32 {
    static size_t bytes(int n_cols) { return PanelF32<C>(nullptr, n_cols).bytes; }
    static void write(void *dst, int panel, int column, const float *x, int n_cols) {
        float *out = PanelF32<C>(dst, n_cols, panel).x + column;
        const int n_k = int(round_up(n_cols, 16));
        for (int k = 0; k < n_k; ++k) out[size_t(k) * C] = x && k < n_cols ? x[k] : 0.0f;
    }
};

template <int C>
struct Q8_32 {
    static size_t bytes(int n_cols) { return Panel32<C>(nullptr, n_cols).bytes; }
    static void write(void *dst, int panel, int column, const float *x, int n_cols) {
        const Panel32<C> out(dst, n_cols, panel);
        const int n_k = int(round_up(n_cols, 64));
        for (int k = 0; k < n_k; k += 32) {
            int8_t q[32] = {};
            const bool filled = x && k < n_cols;
            const float d = filled ? quantize(q, x + k, 32) : 0.0f;
            const int at = k / 32 * C + column, total = filled ? sum(q, 32) : 0;
            place<C>(out.q, column, k, q, 32);
            out.d[at] = d;
            out.minus[at] = -total;
            out.sum[at] = d * float(total);
        }
    }
};

#if defined(__AVX512VNNI__)
template <>
struct Q8_32<1> {
    static size_t bytes(int n_cols) { return round_up(n_cols, 128) / 128 * sizeof(Quad); }
    static void write(void *dst, int panel, int, const float *x, int n_cols) {
        Quad *out = quads(dst, n_cols, panel);
        std::memset(out, 0, bytes(n_cols));
        for (int k = 0; k < n_cols; k += 32) {
            Quad &quad = out[k / 128];
            const int b = k / 32 % 4;
            int8_t q[32];
            const float d = quantize(q, x + k, 32);
            const int total = sum(q, 32);
            std::memcpy(quad.q[0][b], q, 16);
            std::memcpy(quad.q[1][b], q + 16, 16);
            quad.minus[b][0] = -total;
            quad.d[b] = d;
            quad.sum[b] = d * float(total);
        }
    }
};
#endif

template <int C>
struct Q8_256 {
    static size_t bytes(int n_cols) { return Panel256<C>(nullptr, n_cols).bytes; }
    static void write(void *dst, int panel, int column, const float *x, int n_cols) {
        const Panel256<C> out(dst, n_cols, panel);
        for (int k = 0; k < n_cols; k += 256) {
            int8_t q[256] = {};
            out.d[k / 256 * C + column] = x ? quantize(q, x + k, 256) : 0.0f;
            if (C == 1 && int8_in_panels) {
                for (int s = 0; s < 16; ++s) {
                    std::memcpy(out.q + k + 16 * lane_order(s), q + 16 * s, 16);
                }
            } else {
                place<C>(out.q, column, k, q, 256);
            }
            for (int s = 0; s < 16; ++s) {
                const int total = sum(q + 16 * s, 16), i = k / 16 + s;
                out.minus[i * C + column] = -total;
                out.pairs[(i / 2 * C + column) * 2 + i % 2] = int16_t(-total);
            }
        }
    }
};

template <template <int> class Format, ActFormat format>
size_t bytes(int n_rows, int n_cols) {
    const size_t n_apart = columns_per_panel(format, n_rows) == 1 ? n_rows : few_rows;
    const size_t rows = n_apart * Format<1>::bytes(n_cols);
    if (columns_per_panel(format, n_rows) == 1) return rows;
    const size_t n_panels = (size_t(n_rows) + panel_columns - 1) / panel_columns;
    const size_t panels = n_panels * Format<panel_columns>::bytes(n_cols);
    return panels > rows ? panels : rows;
}

template <template <int> class Format, int C>
void pack_columns(void *dst, const float *x, size_t stride, const int32_t *rows, int n_cols,
                  int first, int last) {
    for (int r = first; r < int(round_up(last, C)); ++r) {
        const float *row = r < last ? x + (rows ? rows[r] : r) * stride : nullptr;
        Format<C>::write(dst, r / C, r % C, row, n_cols);
    }
}

template <template <int> class Format, ActFormat format>
void pack(void *dst, const float *x, size_t stride, const int32_t *rows, int n_rows, int n_cols,
          int first, int last) {
    if (columns_per_panel(format, n_rows) == 1) {
        pack_columns<Format, 1>(dst, x, stride, rows, n_cols, first, last);
    } else {
        pack_columns<Format, panel_columns>(dst, x, stride, rows, n_cols, first, last);
    }
}

template <template <int> class Format, ActFormat format>
constexpr Packer packer_of = {bytes<Format, format>, pack<Format, format>, panel_columns};

}  // namespace

const Packer *packer(ActFormat format) {
    switch (format) {
        case ActFormat::f32: return &packer_of<F32, ActFormat::f32>;
        case ActFormat::q8_32: return &packer_of<Q8_32, ActFormat::q8_32>;
        case ActFormat::q8_256: return &packer_of<Q8_256, ActFormat::q8_256>;
    }
    return nullptr;
}

}  // namespace unladen::cpu::UNLADEN_ISA
