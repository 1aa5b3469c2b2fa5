// The kernels one by one: arrays in, new arrays out, sizes checked. What tests call, from Python
// through bind_kernels.cc and, where an emulator runs them, through a program of the tests.
// Each throws std::invalid_argument for arguments that don't fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace unladen::cpu::calls {

// A contiguous array that somebody else owns.
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
// Of each sixteen numbers.
Result largest(Floats x, const std::string &level);
Result scale_add(Floats y, Floats x, float s, const std::string &level);

// One token's rows of K and V as a cache of these types holds them.
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
// interleaved: as many of the rows as there are kernels for.
Result matmul(const std::string &type, Bytes w, int n_rows_w, int n_cols, Floats x,
              const std::string &level, bool precise, Range n_range, Range t_range,
              bool interleaved);

// Products of rows in two parts, whole sixteens of them, [n_rows][n_rows_w], empty where there are
// none or fewer rows are taken: all of it; what the first part makes, how far sixteens of rows
// reach then, and the lengths of rows of x; what a second look adds, and by how much each sum may
// be off then.
struct Screened {
    Result whole, coarse, reach, lengths, more, off;
};
Screened screened(const std::string &type, Bytes w, int n_rows_w, int n_cols, Floats x,
                  const std::string &level);
// Bytes of a block that need not be read to find a head's largest product.
double spared_bytes(const std::string &level, const std::string &type);

}  // namespace unladen::cpu::calls
