#include "quants/csrc/tiles.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace unladen {
namespace {

constexpr size_t word_bytes = 4, lanes = 32, lane_words = 4;
constexpr size_t chunk_bytes = lanes * lane_words * word_bytes;
constexpr size_t half = TileLayout::rows / 2, half_chunk = TileLayout::chunk_words / 2;

uint32_t word_at(const uint8_t *from) {
    uint32_t word;
    std::memcpy(&word, from, word_bytes);
    return word;
}

// The words of two rows for four lanes, each of which has one of the first four words of both rows,
// then one of the last four.
void pack_lanes(const uint8_t *first, const uint8_t *second, const uint32_t *words, uint8_t *to) {
    uint32_t out[half_chunk * lane_words];
    for (size_t t = 0; t < half_chunk; t++) {
        out[lane_words * t] = word_at(first + words[t]);
        out[lane_words * t + 1] = word_at(second + words[t]);
        out[lane_words * t + 2] = word_at(first + words[t + half_chunk]);
        out[lane_words * t + 3] = word_at(second + words[t + half_chunk]);
    }
    std::memcpy(to, out, sizeof out);
}

// A call costs more than the two or four bytes that most formats have here.
void copy_few(uint8_t *to, const uint8_t *from, size_t n) {
    switch (n) {
        case 1: *to = *from; break;
        case 2: std::memcpy(to, from, 2); break;
        case 4: std::memcpy(to, from, 4); break;
        case 8: std::memcpy(to, from, 8); break;
        case 16: std::memcpy(to, from, 16); break;
        default: std::memcpy(to, from, n);
    }
}

}  // namespace

TileLayout::TileLayout(std::vector<uint32_t> words, const std::vector<uint32_t> &aside,
                       size_t block_bytes)
    : words_(std::move(words)), block_bytes_(block_bytes) {
    const size_t code_bytes = words_.size() * word_bytes;
    if (block_bytes <= aside.size() || code_bytes % (block_bytes - aside.size()) != 0)
        throw std::invalid_argument("the words aren't those of whole blocks");
    part_bytes_ = code_bytes / (block_bytes - aside.size()) * block_bytes;
    if (words_.empty() || words_.size() % chunk_words != 0)
        throw std::invalid_argument("the words aren't whole chunks");
    for (const uint32_t word : words_)
        if (word > part_bytes_ - word_bytes) throw std::invalid_argument("a word is outside");
    for (const uint32_t at : aside) {
        if (at >= block_bytes) throw std::invalid_argument("a byte is outside of its block");
        if (!aside_.empty() && aside_.back().first + aside_.back().n_bytes == at)
            aside_.back().n_bytes++;
        else
            aside_.push_back({at, 1});
    }
}

size_t TileLayout::n_tiles(const ByteRows &from) const {
    if (from.n_rows % rows != 0) throw std::invalid_argument("the rows aren't whole sixteens");
    if (from.row_bytes % part_bytes_ != 0 || from.stride < from.row_bytes)
        throw std::invalid_argument("a row doesn't have whole tiles");
    return from.n_rows / rows * (from.row_bytes / part_bytes_);
}

void TileLayout::pack(const ByteRows &from, size_t first, size_t n, uint8_t *to) const {
    const size_t together = from.row_bytes / part_bytes_;
    for (size_t tile = first; tile < first + n; tile++) {
        const uint8_t *at = from.data + tile / together * rows * from.stride +
                            tile % together * part_bytes_;
        pack_codes(at, from.stride, to);
        pack_aside(at, from.stride, to + rows * words_.size() * word_bytes);
        to += tile_bytes();
    }
}

// Row by row, since rows are often so far from one another that few of them fit into the cache at
// once.
void TileLayout::pack_codes(const uint8_t *from, size_t stride, uint8_t *to) const {
    for (size_t row = 0; row < half; row++) {
        const uint8_t *first = from + row * stride, *second = first + half * stride;
        uint8_t *out = to + row * (chunk_bytes / half);
        for (size_t word = 0; word < words_.size(); word += chunk_words, out += chunk_bytes)
            pack_lanes(first, second, words_.data() + word, out);
    }
}

void TileLayout::pack_aside(const uint8_t *from, size_t stride, uint8_t *to) const {
    for (size_t block = 0; block < part_bytes_; block += block_bytes_) {
        for (size_t row = 0; row < rows; row++) {
            for (const Run &run : aside_) {
                copy_few(to, from + row * stride + block + run.first, run.n_bytes);
                to += run.n_bytes;
            }
        }
    }
}

}  // namespace unladen
