// The kernels one by one, for tests: each takes arrays, checks their sizes and returns new arrays.
// Python calls them through bind_kernels.cc. Where an emulator runs the kernels, a program of the
// tests calls them (tests/kernel_server.cc). Each throws std::invalid_argument for arguments that
// don't fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace unladen::cpu::calls {

// A contiguous array that the caller owns.
template <typename T>
struct View {
    const T *data;
    std::vector<size_t> shape;

    size_t size() const {
        size_t n = 1;
        for (size_t dim : shape) n *= dim;
        return n;
    }
};

using Floats = View<float>;
using Bytes = View<uint8_t>;
using Ints = View<int32_t>;
using Range = std::pair<int, int>;

struct Result {
    std::vector<float> values;
    std::vector<size_t> shape;
};

Result rms_norm(Floats x, std::optional<Floats> w, float eps, const std::string &level);
Result layer_norm(Floats x, std::optional<Floats> w, std::optional<Floats> b, float eps,
                  const std::string &level);
Result rope(Floats x, Floats cs, bool neox, const std::string &level);
Result activate(Floats x, const std::string &act, const std::string &level);
Result glu(Floats gate, Floats up, const std::string &act, const std::string &level);
Result add(Floats a, Floats b, const std::string &level);
// The largest of each sixteen numbers.
Result largest(Floats x, const std::string &level);
Result scale_add(Floats y, Floats x, float s, const std::string &level);

// One token's rows of K and V, as bytes in a cache of these types.
std::pair<std::vector<uint8_t>, std::vector<uint8_t>> kv_store(
    Floats k, Floats v, const std::string &k_type, const std::string &v_type,
    const std::string &level);

// `seen` [n_tasks, 3]: a task's position and the keys [first, last) that it sees.
struct Attention {
    Floats q, k, v;
    int block_tokens;
    Ints block_table, seen;
    std::string k_type, v_type;
    float scale, softcap;
    std::optional<Floats> slopes, sinks;
};
Result attention(const Attention &a, const std::string &level);

Result dequantize(const std::string &type, Bytes raw, int n, const std::string &level);
// interleaved: the rows are interleaved, except a last group of fewer than sixteen.
Result matmul(const std::string &type, Bytes w, int n_rows_w, int n_cols, Floats x,
              const std::string &level, bool precise, Range n_range, Range t_range,
              bool interleaved);

// Products of divided rows; their number is a multiple of sixteen. `coarse` is empty if the screen
// takes fewer rows of x; `more` and `off` are also empty if there is no second look.
struct Screened {
    Result whole;    // [n_rows][n_rows_w] products of both parts
    Result coarse;   // [n_rows][n_rows_w] products of the first part
    Result reach;    // [n_rows_w / 16] bound of a coarse product's error, for an x of length 1
    Result lengths;  // [n_rows] of the rows of x
    Result more;     // [n_rows][n_rows_w] numbers that a second look adds to the coarse products
    Result off;      // [n_rows][n_rows_w] bound of each sum's error after that
};
Screened screened(const std::string &type, Bytes w, int n_rows_w, int n_cols, Floats x,
                  const std::string &level);
// How many bytes of a block are not read by coarse products.
double spared_bytes(const std::string &level, const std::string &type);

}  // namespace unladen::cpu::calls
