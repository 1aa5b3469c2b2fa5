// Runs the CPU kernels for tests/machines.py, one call after another, where Python can't run: under
// an emulator of another processor. A message is a count of values, then the values. A request has
// the kernel's name and its arguments in the order of calls.h. An answer has the arrays, or a text
// that says what is wrong. A value is a tag and its contents; all numbers are little-endian.
//   n                    nothing
//   d  float64           a number
//   s  uint32 n, bytes   a text
//   f  uint32 n_dims, uint32 dims ..., float32 ...; likewise b, uint8, and i, int32: an array
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cpu/csrc/calls.h"
#include "backends/cpu/csrc/cpu.h"

namespace {

using namespace unladen::cpu;
using calls::Result;

// Thrown where the test's end of the pipe is closed.
struct Closed {};

template <typename T>
std::vector<T> read(size_t n) {
    std::vector<T> values(n);
    if (n && std::fread(values.data(), sizeof(T), n, stdin) != n) throw Closed{};
    return values;
}

template <typename T>
T read_one() {
    return read<T>(1)[0];
}

struct Value {
    char tag;
    double number = 0;
    std::string text;
    std::vector<size_t> shape;
    std::vector<uint8_t> bytes;

    static Value receive() {
        Value v;
        v.tag = read_one<char>();
        if (v.tag == 'd') v.number = read_one<double>();
        if (v.tag == 's') {
            const std::vector<char> text = read<char>(read_one<uint32_t>());
            v.text.assign(text.begin(), text.end());
        }
        if (std::strchr("fbi", v.tag)) {
            size_t n = v.tag == 'b' ? 1 : 4;
            for (uint32_t dim : read<uint32_t>(read_one<uint32_t>())) {
                v.shape.push_back(dim);
                n *= dim;
            }
            v.bytes = read<uint8_t>(n);
        }
        return v;
    }
    template <typename T>
    calls::View<T> view() const {
        return {reinterpret_cast<const T *>(bytes.data()), shape};
    }
};

class Arguments {
public:
    explicit Arguments(std::vector<Value> values) : values_(std::move(values)) {}
    std::string text() { return next('s').text; }
    double number() { return next('d').number; }
    int whole() { return int(number()); }
    bool is_left() const { return at_ < values_.size(); }
    calls::Range range() {
        const int first = whole();
        return {first, whole()};
    }
    calls::Floats floats() { return next('f').view<float>(); }
    calls::Bytes bytes() { return next('b').view<uint8_t>(); }
    calls::Ints ints() { return next('i').view<int32_t>(); }
    std::optional<calls::Floats> perhaps() {
        if (values_.at(at_).tag != 'n') return floats();
        ++at_;
        return std::nullopt;
    }

private:
    const Value &next(char tag) {
        const Value &value = values_.at(at_++);
        if (value.tag != tag) throw std::invalid_argument("an argument of another kind is wanted");
        return value;
    }
    std::vector<Value> values_;
    size_t at_ = 0;
};

template <typename T>
void write(const T *values, size_t n) {
    std::fwrite(values, sizeof(T), n, stdout);
}

template <typename T>
void write_array(char tag, const std::vector<T> &values, const std::vector<size_t> &shape) {
    write(&tag, 1);
    std::vector<uint32_t> header = {uint32_t(shape.size())};
    for (size_t dim : shape) header.push_back(uint32_t(dim));
    write(header.data(), header.size());
    write(values.data(), values.size());
}

void write_count(uint32_t n) { write(&n, 1); }

void write_text(const std::string &text) {
    const char tag = 's';
    write(&tag, 1);
    write_count(uint32_t(text.size()));
    write(text.data(), text.size());
}

Result call(const std::string &name, Arguments &a) {
    // Arguments of one call would be evaluated in any order: each is taken by a statement.
    if (name == "matmul") {
        const std::string type = a.text();
        const calls::Bytes w = a.bytes();
        const int n_rows = a.whole(), n_cols = a.whole();
        const calls::Floats x = a.floats();
        const std::string level = a.text();
        const bool precise = a.number() != 0;
        const calls::Range n_range = a.range(), t_range = a.range();
        const bool interleaved = a.is_left() && a.number() != 0;
        return calls::matmul(type, w, n_rows, n_cols, x, level, precise, n_range, t_range,
                             interleaved);
    }
    if (name == "dequantize") {
        const std::string type = a.text();
        const calls::Bytes raw = a.bytes();
        const int n = a.whole();
        return calls::dequantize(type, raw, n, a.text());
    }
    if (name == "attention") {
        calls::Attention of{a.floats(), a.floats(), a.floats(), a.whole(), a.ints(), a.ints(),
                            a.text(), a.text(), float(a.number()), float(a.number()), a.perhaps(),
                            a.perhaps()};  // in braces, from left to right
        return calls::attention(of, a.text());
    }
    const calls::Floats x = a.floats();
    if (name == "rms_norm" || name == "layer_norm") {
        const auto w = a.perhaps();
        const auto b = name == "layer_norm" ? a.perhaps() : std::nullopt;
        const float eps = float(a.number());
        const std::string level = a.text();
        return name == "rms_norm" ? calls::rms_norm(x, w, eps, level)
                                  : calls::layer_norm(x, w, b, eps, level);
    }
    if (name == "largest") return calls::largest(x, a.text());
    if (name == "activate") {
        const std::string act = a.text();
        return calls::activate(x, act, a.text());
    }
    const calls::Floats y = a.floats();
    if (name == "rope") {
        const bool neox = a.number() != 0;
        return calls::rope(x, y, neox, a.text());
    }
    if (name == "glu") {
        const std::string act = a.text();
        return calls::glu(x, y, act, a.text());
    }
    if (name == "add") return calls::add(x, y, a.text());
    if (name == "scale_add") {
        const float s = float(a.number());
        return calls::scale_add(x, y, s, a.text());
    }
    throw std::invalid_argument("no kernel is called " + name);
}

void answer(const std::string &name, Arguments &a) {
    if (name == "levels") {
        const std::vector<std::string> names = levels();
        write_count(uint32_t(names.size()));
        for (const std::string &level : names) write_text(level);
    } else if (name == "kv_store") {
        const calls::Floats k = a.floats(), v = a.floats();
        const std::string k_type = a.text(), v_type = a.text();
        const auto [k_bytes, v_bytes] = calls::kv_store(k, v, k_type, v_type, a.text());
        write_count(2);
        write_array('b', k_bytes, {k_bytes.size()});
        write_array('b', v_bytes, {v_bytes.size()});
    } else if (name == "screened") {
        const std::string type = a.text();
        const calls::Bytes w = a.bytes();
        const int n_rows = a.whole(), n_cols = a.whole();
        const calls::Floats x = a.floats();
        const auto [whole, coarse, reach, lengths, more, off] =
            calls::screened(type, w, n_rows, n_cols, x, a.text());
        write_count(6);
        for (const Result &one : {whole, coarse, reach, lengths, more, off}) {
            write_array('f', one.values, one.shape);
        }
    } else if (name == "spared_bytes") {
        const std::string level = a.text();
        write_count(1);
        write_array('f', std::vector<float>{float(calls::spared_bytes(level, a.text()))}, {});
    } else {
        const Result result = call(name, a);
        write_count(1);
        write_array('f', result.values, result.shape);
    }
}

}  // namespace

int main() {
    try {
        for (;;) {
            const uint32_t n = read_one<uint32_t>();
            std::vector<Value> values;
            for (uint32_t i = 0; i < n; ++i) values.push_back(Value::receive());
            const std::string name = values.at(0).text;
            Arguments arguments({values.begin() + 1, values.end()});
            try {
                answer(name, arguments);
            } catch (const std::exception &error) {
                write_count(1);
                write_text(error.what());
            }
            std::fflush(stdout);
        }
    } catch (const Closed &) {
        return 0;
    }
}
