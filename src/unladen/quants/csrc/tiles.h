// Blocks in tiles, as quants/tiles.py defines them: a permutation of a tensor's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unladen {

// Rows of bytes, each `stride` bytes after the one before.
struct ByteRows {
    const uint8_t *data;
    size_t n_rows, row_bytes, stride;
};

// Where the bytes of a tile come from. A row has `part_bytes` bytes in a tile: whole blocks.
class TileLayout {
public:
    static constexpr size_t rows = 16, chunk_words = 8;

    // `words`: where each word of codes begins in a row's part, in the tile's order, whole chunks.
    // `aside`: the other bytes of a block. Throws std::invalid_argument where they aren't as many
    // bytes as the blocks have, or aren't all inside of the part.
    TileLayout(std::vector<uint32_t> words, const std::vector<uint32_t> &aside, size_t block_bytes);

    size_t part_bytes() const { return part_bytes_; }
    size_t tile_bytes() const { return rows * part_bytes_; }
    // How many tiles the rows have. Throws std::invalid_argument where these aren't whole tiles.
    size_t n_tiles(const ByteRows &from) const;
    // Writes the tiles from number `first` on to `to`; all of them exist. Those of sixteen rows
    // follow one another, and then come those of the next sixteen.
    void pack(const ByteRows &from, size_t first, size_t n, uint8_t *to) const;

private:
    // Neighbouring bytes.
    struct Run {
        size_t first, n_bytes;
    };
    void pack_codes(const uint8_t *from, size_t stride, uint8_t *to) const;
    void pack_aside(const uint8_t *from, size_t stride, uint8_t *to) const;

    std::vector<uint32_t> words_;
    std::vector<Run> aside_;
    size_t block_bytes_, part_bytes_;
};

}  // namespace unladen
