// Operations that work row by row.
#include <cmath>
#include <cstring>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {
OperationPtr make_embed(const Kernels &k, Matrix table, const int32_t *ids, Rows rows, float *y) {
    auto dequantize = k.dequantize(table.type.c_str());
    const Linear &kernel = linear_kernel(k, table.type, true);
    size_t n = table.n_cols, row_bytes = kernel.row_bytes(table.n_cols);
    return by_rows(rows, n * 0.5, [=](const Step &, int row) {
        dequantize(y + row * n, table.data + ids[row] * row_bytes, static_cast<int>(n));
    });
}

OperationPtr make_select_rows(const float *x, int n_cols, const int32_t *which, float *y) {
    size_t n = n_cols;
    return by_rows(Rows::outputs, n * 0.2, [=](const Step &, int row) {
        std::memcpy(y + row * n, x + which[row] * n, n * sizeof(float));
    });
}

OperationPtr make_rms_norm(const Kernels &k, const float *x, NormWeights w, float *y, Rows rows,
                           int n_cols, int group, float eps) {
    return by_rows(rows, n_cols * 0.2, [=, &k](const Step &, int row) {
        size_t at = static_cast<size_t>(row) * n_cols;
        for (int i = 0; i < n_cols; i += group)
            k.rms_norm(y + at + i, x + at + i, w.scale_at(i), group, eps);
    });
}

OperationPtr make_layer_norm(const Kernels &k, const float *x, NormWeights w, float *y, Rows rows,
                             int n_cols, int group, float eps) {
    return by_rows(rows, n_cols * 0.3, [=, &k](const Step &, int row) {
        size_t at = static_cast<size_t>(row) * n_cols;
        for (int i = 0; i < n_cols; i += group)
            k.layer_norm(y + at + i, x + at + i, w.scale_at(i), w.shift_at(i), group, eps);
    });
}

OperationPtr make_rope_table(std::vector<double> freqs, double magnitude, int back, float *y) {
    size_t n = freqs.size();
    return by_rows(Rows::tokens, n * 25.0,
                   [=, freqs = std::move(freqs)](const Step &step, int row) {
                       float *out = y + row * 2 * n;
                       for (size_t i = 0; i < n; i++) {
                           double angle = (step.positions[row] - back) * freqs[i];
                           out[2 * i] = static_cast<float>(std::cos(angle) * magnitude);
                           out[2 * i + 1] = static_cast<float>(std::sin(angle) * magnitude);
                       }
                   });
}

OperationPtr make_rope(const Kernels &k, const float *x, const float *table, float *y, int n_heads,
                       int head_dim, int first, int n_rot, bool neox) {
    size_t n = static_cast<size_t>(n_heads) * head_dim;
    return by_rows(Rows::tokens, n * 0.4, [=, &k](const Step &, int row) {
        const float *angles = table + static_cast<size_t>(row) * n_rot;
        if (first == 0) {
            k.rope(y + row * n, x + row * n, angles, n_heads, head_dim, n_rot, neox);
            return;
        }
        for (int h = 0; h < n_heads; h++) {
            size_t at = row * n + static_cast<size_t>(h) * head_dim;
            std::memcpy(y + at, x + at, first * sizeof(float));
            k.rope(y + at + first, x + at + first, angles, 1, head_dim - first, n_rot, neox);
        }
    });
}

OperationPtr make_position_scale(double scale, int length, int offset, float *y) {
    return by_rows(Rows::tokens, 30, [=](const Step &step, int row) {
        int n = (step.positions[row] + offset) / length;
        y[row] = static_cast<float>(1 + scale * std::log1p(n));
    });
}

OperationPtr make_add(const Kernels &k, const float *a, const float *b, bool same_b, float *y,
                      Rows rows, int n_cols) {
    size_t n = n_cols, b_stride = same_b ? 0 : n;
    return by_rows(rows, n * 0.15, [=, &k](const Step &, int row) {
        k.add(y + row * n, a + row * n, b + row * b_stride, n_cols);
    });
}

OperationPtr make_scale(const float *x, float s, Factors w, float *y, Rows rows, int n_cols) {
    size_t n = n_cols;
    std::vector<float> factors(n, s);
    for (size_t i = 0; w.n > 0 && i < n; i++) {
        float factor = w.values[i * w.n / n];
        factors[i] = w.divide ? s / factor : s * factor;
    }
    return by_rows(rows, n * 0.15, [=, factors = std::move(factors)](const Step &, int row) {
        for (size_t i = 0; i < n; i++) y[row * n + i] = x[row * n + i] * factors[i];
    });
}

OperationPtr make_clamp(const float *x, float limit, float *y, Rows rows, int n_cols) {
    size_t n = n_cols;
    return by_rows(rows, n * 0.15, [=](const Step &, int row) {
        for (size_t i = row * n; i < (row + 1) * n; i++)
            y[i] = x[i] < -limit ? -limit : x[i] > limit ? limit : x[i];
    });
}

OperationPtr make_softcap(const Kernels &k, const float *x, float cap, float *y, Rows rows,
                          int n_cols) {
    size_t n = n_cols;
    return by_rows(rows, n * 0.8, [=, &k](const Step &, int row) {
        k.softcap(y + row * n, x + row * n, n_cols, cap);
    });
}

OperationPtr make_columns(const float *x, int group, int first, int count, float *y, Rows rows,
                          int n_cols) {
    size_t n = n_cols, n_groups = n / group;
    return by_rows(rows, n * 0.1, [=](const Step &, int row) {
        const float *from = x + row * n + first;
        float *to = y + row * n_groups * count;
        for (size_t i = 0; i < n_groups; i++, from += group, to += count)
            std::memcpy(to, from, count * sizeof(float));
    });
}

OperationPtr make_activation(const Kernels &k, const float *x, Activation act, float *y, Rows rows,
                             int n_cols) {
    size_t n = n_cols;
    return by_rows(rows, n * 0.8, [=, &k](const Step &, int row) {
        k.activate(y + row * n, x + row * n, n_cols, act);
    });
}

void cut(const GatedUnit &unit, float *gate, float *up, int n) {
    if (unit.limit > 0) {
        for (int i = 0; i < n; i++) {
            gate[i] = gate[i] > unit.gate_limit ? unit.gate_limit : gate[i];
            up[i] = up[i] > unit.limit ? unit.limit : up[i] < -unit.limit ? -unit.limit : up[i];
        }
    }
    if (unit.up_offset != 0)
        for (int i = 0; i < n; i++) up[i] += unit.up_offset;
}

constexpr int glu_part = 256;

OperationPtr make_glu(const Kernels &k, const float *gate, int n_gates, const float *up,
                      GatedUnit unit, float *y, Rows rows, int n_cols) {
    size_t n = n_cols;
    int each = n_cols / n_gates;
    return by_rows(rows, n * 0.9, [=, &k](const Step &, int row) {
        const float *g = gate + static_cast<size_t>(row) * n_gates;
        if (each == 1 && unit.limit == 0 && unit.up_offset == 0) {
            k.glu(y + row * n, g, up + row * n, n_cols, unit.act);
            return;
        }
        float gates[glu_part], ups[glu_part];
        for (int i = 0; i < n_cols; i += glu_part) {
            int count = std::min(glu_part, n_cols - i);
            for (int j = 0; j < count; j++) gates[j] = g[(i + j) / each];
            std::memcpy(ups, up + row * n + i, count * sizeof(float));
            cut(unit, gates, ups, count);
            k.glu(y + row * n + i, gates, ups, count, unit.act);
        }
    });
}

OperationPtr make_concat(std::vector<HeadPart> parts, int n_heads, float *y, Rows rows) {
    size_t n = 0;
    for (auto &part : parts) n += static_cast<size_t>(part.n_cols) * n_heads;
    return by_rows(rows, n * 0.2, [=, parts = std::move(parts)](const Step &, int row) {
        float *out = y + row * n;
        for (int h = 0; h < n_heads; h++) {
            for (auto &part : parts) {
                size_t width = part.n_cols, at = part.shared ? row : row * n_heads + h;
                std::memcpy(out, part.x + at * width, width * sizeof(float));
                out += width;
            }
        }
    });
}

OperationPtr make_head_sum(const float *x, float *y, Rows rows, int n_cols, int head_dim) {
    int n_heads = n_cols / head_dim;
    return by_rows(rows, n_cols * 0.5, [=](const Step &, int row) {
        const float *head = x + static_cast<size_t>(row) * n_cols;
        for (int h = 0; h < n_heads; h++, head += head_dim) {
            float sum = 0;
            for (int i = 0; i < head_dim; i++) sum += head[i];
            y[static_cast<size_t>(row) * n_heads + h] = sum;
        }
    });
}

OperationPtr make_l2_norm(const Kernels &k, const float *x, float *y, Rows rows, int n_cols,
                          int group, float eps) {
    // Against the root of the mean, the root of the sum is larger by that of the number.
    std::vector<float> w(group, 1.0f / std::sqrt(static_cast<float>(group)));
    return by_rows(rows, n_cols * 0.2, [=, &k, w = std::move(w)](const Step &, int row) {
        size_t at = static_cast<size_t>(row) * n_cols;
        for (int i = 0; i < n_cols; i += group)
            k.rms_norm(y + at + i, x + at + i, w.data(), group, eps / group);
    });
}

OperationPtr make_kv_write(const Kernels &k, KVView kv, const float *key, const float *value) {
    size_t k_row = static_cast<size_t>(kv.n_kv_heads) * kv.k_dim;
    size_t v_row = static_cast<size_t>(kv.n_kv_heads) * kv.v_dim;
    return by_rows(Rows::tokens, (k_row + v_row) * 0.3, [=, &k](const Step &step, int row) {
        int position = step.positions[row];
        const int32_t *table = step.block_table + step.seq_of[row] * step.table_stride;
        k.kv_store(kv, table[position / kv.block_tokens], position % kv.block_tokens,
                   key + row * k_row, value + row * v_row);
    });
}

}  // namespace unladen::cpu
