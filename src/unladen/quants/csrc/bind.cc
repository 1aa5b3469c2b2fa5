// Binds the packing of tiles; typed in _native/quants.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/pool.h"
#include "csrc/gil.h"
#include "quants/csrc/tiles.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen {
namespace {

using Rows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::device::cpu>;
using Out = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = std::vector<uint32_t>;

// Tiles that a thread packs at a time have about so many bytes, and are at most so many shares.
constexpr size_t share_bytes = 64 << 10, most_shares = 1 << 16;

// Threads pack shares of the tiles from `first` on.
class Packing final : public cpu::Region {
public:
    Packing(const TileLayout &layout, const ByteRows &from, size_t first, size_t n, uint8_t *to)
        : layout_(layout), from_(from), first_(first), n_(n), to_(to),
          share_(std::max({share_bytes / layout.tile_bytes(), n / most_shares + 1, size_t{1}})) {}

    int n_shares() const { return static_cast<int>((n_ + share_ - 1) / share_); }
    void tiles(int first, int last, int) override {
        const size_t begin = first * share_, end = std::min(n_, last * share_);
        layout_.pack(from_, first_ + begin, end - begin, to_ + begin * layout_.tile_bytes());
    }

private:
    const TileLayout &layout_;
    ByteRows from_;
    size_t first_, n_;
    uint8_t *to_;
    size_t share_;
};

void pack_tiles(Rows rows, Out out, Places words, const Places &aside, size_t block_bytes,
                size_t first, int n_threads) {
    const TileLayout layout(std::move(words), aside, block_bytes);
    if (rows.stride(1) != 1 || (rows.shape(0) > 1 && rows.stride(0) < int64_t(rows.shape(1))))
        throw std::invalid_argument("the bytes of a row aren't one after another");
    const ByteRows from{rows.data(), rows.shape(0), rows.shape(1),
                        rows.shape(0) > 1 ? size_t(rows.stride(0)) : rows.shape(1)};
    const size_t n = out.size() / layout.tile_bytes(), n_all = layout.n_tiles(from);
    if (out.size() % layout.tile_bytes() != 0 || n > n_all || first > n_all - n)
        throw std::invalid_argument("the rows don't have these tiles");
    if (n == 0) return;
    Packing packing(layout, from, first, n, out.data());
    const int n_used = std::clamp(n_threads, 1, packing.n_shares());
    const Unlocked unlocked;
    if (n_used == 1) return packing.tiles(0, packing.n_shares(), 0);
    cpu::Pool &pool = cpu::Pool::instance();
    const std::lock_guard lock(pool.mutex());
    pool.run(cpu::Stage{&packing, {packing.n_shares()}, n_used}, [](int) {});
}

}  // namespace

void bind_quants(nb::module_ &m) {
    m.def("pack_tiles", &pack_tiles, "rows"_a, "out"_a, "words"_a, "aside"_a, "block_bytes"_a,
          "first"_a, "n_threads"_a);
}

}  // namespace unladen
