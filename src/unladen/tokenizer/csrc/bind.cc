// Binds the native tokenizers; typed in _native/tokenizer.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "csrc/gil.h"
#include "tokenizer/csrc/bpe_kin.h"
#include "tokenizer/csrc/opaque.h"
#include "tokenizer/csrc/plamo2.h"
#include "tokenizer/csrc/rwkv.h"
#include "tokenizer/csrc/spm.h"
#include "tokenizer/csrc/tokenizer.h"
#include "tokenizer/csrc/ugm.h"
#include "tokenizer/csrc/wpm.h"

namespace nb = nanobind;

namespace unladen {
namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A call on fewer bytes keeps Python's lock: it ends before another thread could use the lock.
constexpr size_t kReleaseBytes = 4096;

std::string_view view(const nb::bytes &bytes) { return {bytes.c_str(), bytes.size()}; }

nb::bytes bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }

tok::Texts texts(Array<uint8_t> buffer, Array<int64_t> offsets, Array<int64_t> lengths) {
    const size_t n = offsets.shape(0);
    if (lengths.shape(0) != n || n > INT32_MAX)
        throw std::invalid_argument("needs as many lengths as offsets, below 2^31");
    const auto total = static_cast<int64_t>(buffer.shape(0));
    for (size_t i = 0; i < n; ++i) {
        const int64_t at = offsets.data()[i], length = lengths.data()[i];
        if (at < 0 || length < 0 || at > total || length > total - at)
            throw std::invalid_argument("string " + std::to_string(i) + " is outside its buffer");
    }
    return {reinterpret_cast<const char *>(buffer.data()), offsets.data(), lengths.data(), n};
}

std::shared_ptr<const tok::Tokens> tokens(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types,
                                          Array<uint8_t> strips) {
    const size_t n = vocab->size();
    if (types.shape(0) != n || strips.shape(0) != n)
        throw std::invalid_argument("needs one type and one strip per token");
    return std::make_shared<tok::Tokens>(
        tok::Tokens{std::move(vocab), {types.data(), types.data() + n},
                    {strips.data(), strips.data() + n}});
}

int32_t checked(int64_t id, int32_t n) {
    if (id < 0 || id >= n)
        throw std::out_of_range("token id " + std::to_string(id) + " isn't below " +
                                std::to_string(n));
    return static_cast<int32_t>(id);
}

std::vector<float> floats(Array<float> scores, int32_t n) {
    if (scores.shape(0) != static_cast<size_t>(n))
        throw std::invalid_argument("needs one score per token");
    return {scores.data(), scores.data() + n};
}

tok::Tokenizer spm(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types, Array<uint8_t> strips,
                   Array<float> scores, bool space_prefix, int32_t unk) {
    if (unk >= 0) checked(unk, vocab->size());
    auto all = tokens(std::move(vocab), types, strips);
    tok::SpmOptions options{floats(scores, all->vocab->size()), space_prefix, unk};
    return {all, std::make_unique<tok::Spm>(*all, std::move(options))};
}

tok::Tokenizer wpm(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types, Array<uint8_t> strips,
                   bool lowercase, bool strip_accents, int32_t unk) {
    if (unk >= 0) checked(unk, vocab->size());
    auto all = tokens(std::move(vocab), types, strips);
    return {all, std::make_unique<tok::Wpm>(*all,
                                            tok::WpmOptions{lowercase, strip_accents, unk})};
}

tok::Tokenizer ugm(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types, Array<uint8_t> strips,
                   Array<float> scores, const tok::Charsmap &charsmap, bool space_prefix,
                   bool merge_spaces, int32_t unk) {
    if (unk >= 0) checked(unk, vocab->size());
    auto all = tokens(std::move(vocab), types, strips);
    tok::UgmOptions options{floats(scores, all->vocab->size()), space_prefix, merge_spaces, unk};
    return {all, std::make_unique<tok::Ugm>(*all, charsmap, std::move(options))};
}

tok::Tokenizer plamo2(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types,
                      Array<uint8_t> strips, Array<float> scores) {
    auto all = tokens(std::move(vocab), types, strips);
    return {all, std::make_unique<tok::Plamo2>(*all, floats(scores, all->vocab->size()))};
}

tok::Tokenizer bpe(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types, Array<uint8_t> strips,
                   Array<uint8_t> buffer, Array<int64_t> offsets, Array<int64_t> lengths,
                   const std::string &kin, const std::vector<std::string> &steps,
                   bool ignore_merges, bool raw, bool marks, bool whole_lines, int32_t unk) {
    if (unk >= 0) checked(unk, vocab->size());
    tok::BpeOptions options{{}, ignore_merges, unk, raw, marks, whole_lines};
    for (const std::string &step : steps) options.steps.emplace_back(step);
    auto all = tokens(std::move(vocab), types, strips);
    const tok::Texts merges = texts(buffer, offsets, lengths);
    const Unlocked unlocked;
    std::unique_ptr<tok::Bpe> encoder;
    if (kin == "hybriddna")
        encoder = std::make_unique<tok::HybridDna>(*all, merges, std::move(options));
    else if (kin == "whitespace" || kin == "lowercase")
        encoder = std::make_unique<tok::Whitespace>(*all, merges, std::move(options),
                                                    kin == "lowercase");
    else
        encoder = std::make_unique<tok::Bpe>(*all, merges, std::move(options));
    return {all, std::move(encoder)};
}

tok::Tokenizer rwkv(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types,
                    Array<uint8_t> strips, int32_t unk) {
    if (unk >= 0) checked(unk, vocab->size());
    auto all = tokens(std::move(vocab), types, strips);
    return {all, std::make_unique<tok::Rwkv>(*all, unk)};
}

tok::Tokenizer opaque(std::shared_ptr<tok::Vocab> vocab, Array<uint8_t> types,
                      Array<uint8_t> strips) {
    auto all = tokens(std::move(vocab), types, strips);
    return {all, std::make_unique<tok::Opaque>(*all)};
}

using Ranges = std::vector<std::pair<size_t, size_t>>;

std::vector<int32_t> encode(const tok::Tokenizer &tokenizer, nb::bytes text, bool special,
                            bool fresh, const Ranges &plain) {
    const std::string_view raw = view(text);
    std::vector<tok::Range> ranges;
    for (const auto &[begin, end] : plain) {
        if (begin > end || end > raw.size() || (!ranges.empty() && begin < ranges.back().end))
            throw std::invalid_argument("ranges must be in order, apart and within the text");
        ranges.push_back({begin, end});
    }
    std::optional<Unlocked> unlocked;
    if (raw.size() > kReleaseBytes) unlocked.emplace();
    return tokenizer.encode(raw, special, fresh, ranges);
}

nb::bytes decode(const tok::Tokenizer &tokenizer, Array<int64_t> ids, bool special, bool fresh) {
    const std::span<const int64_t> all(ids.data(), ids.shape(0));
    for (const int64_t id : all) checked(id, tokenizer.size());
    return bytes(tokenizer.decode(all, special, fresh));
}

void bind_vocab(nb::module_ &m) {
    nb::class_<tok::Vocab>(m, "Vocab")
        .def("__init__",
             [](tok::Vocab *self, Array<uint8_t> buffer, Array<int64_t> offsets,
                Array<int64_t> lengths) {
                 new (self) tok::Vocab(texts(buffer, offsets, lengths));
             },
             nb::arg("buffer"), nb::arg("offsets"), nb::arg("lengths"))
        .def("__len__", &tok::Vocab::size)
        .def("find", [](const tok::Vocab &v, nb::bytes text) { return v.find(view(text)); },
             nb::arg("text"))
        .def("text",
             [](const tok::Vocab &v, int64_t id) { return bytes(v.text(checked(id, v.size()))); },
             nb::arg("token_id"));
}

}  // namespace

void bind_tokenizer(nb::module_ &m) {
    bind_vocab(m);
    nb::class_<tok::Charsmap>(m, "Charsmap")
        .def("__init__", [](tok::Charsmap *self, nb::bytes table) {
                 new (self) tok::Charsmap(view(table));
             }, nb::arg("table"));
    nb::class_<tok::Tokenizer>(m, "Tokenizer")
        .def("encode", &encode, nb::arg("text"), nb::arg("special"), nb::arg("fresh"),
             nb::arg("plain") = Ranges())
        .def("decode", &decode, nb::arg("ids"), nb::arg("special"), nb::arg("fresh"))
        .def("piece",
             [](const tok::Tokenizer &t, int64_t id, bool special, bool fresh) {
                 return bytes(t.piece(checked(id, t.size()), special, fresh));
             },
             nb::arg("token_id"), nb::arg("special"), nb::arg("fresh"))
        .def("starts_fresh",
             [](const tok::Tokenizer &t, int64_t id) {
                 return t.starts_fresh(checked(id, t.size()));
             },
             nb::arg("token_id"));
    m.def("spm", &spm, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"), nb::arg("scores"),
          nb::arg("space_prefix"), nb::arg("unk"));
    m.def("bpe", &bpe, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"), nb::arg("buffer"),
          nb::arg("offsets"), nb::arg("lengths"), nb::arg("kin"), nb::arg("steps"),
          nb::arg("ignore_merges"), nb::arg("raw"), nb::arg("marks"), nb::arg("whole_lines"),
          nb::arg("unk"));
    m.def("wpm", &wpm, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"), nb::arg("lowercase"),
          nb::arg("strip_accents"), nb::arg("unk"));
    m.def("ugm", &ugm, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"), nb::arg("scores"),
          nb::arg("charsmap"), nb::arg("space_prefix"), nb::arg("merge_spaces"), nb::arg("unk"));
    m.def("plamo2", &plamo2, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"),
          nb::arg("scores"));
    m.def("rwkv", &rwkv, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"), nb::arg("unk"));
    m.def("opaque", &opaque, nb::arg("vocab"), nb::arg("types"), nb::arg("strips"));
}

}  // namespace unladen
