// Greedy merging of neighbours: the algorithm that BPE and SPM share.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace unladen::tok {

struct Symbol {
    int32_t id;
    uint32_t begin, size;  // bytes in the merged text; size 0: merged into the left neighbour
    int32_t prev, next;    // -1: none
};

struct Merge {
    uint32_t order;  // the pair of the lowest order merges first, the leftmost among equals
    int32_t id;      // the id that the two become; -1: they don't merge
};

// Merges the best pair of a row of symbols until no pair is left. A heap of pairs and a linked list
// make this O(n log n); a short row is scanned for its best pair instead. One object serves many
// rows and keeps its memory.
class Merger {
 public:
    void clear() { symbols_.clear(); }
    size_t bytes() const {
        return symbols_.capacity() * sizeof(Symbol) + heap_.capacity() * sizeof(Pair);
    }
    void add(int32_t id, uint32_t begin, uint32_t size) {
        const auto i = static_cast<int32_t>(symbols_.size());
        if (i) symbols_[i - 1].next = i;
        symbols_.push_back({id, begin, size, i - 1, -1});
    }

    // find(const Symbol &left, const Symbol &right) -> Merge
    template <class Find>
    void run(Find &&find) {
        if (symbols_.size() <= kShort) return run_short(find);
        heap_.clear();
        for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols_.size()); ++i) consider(i, find);
        std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
            const Pair pair = heap_.back();
            heap_.pop_back();
            const auto left = static_cast<int32_t>(pair.key & UINT32_MAX);
            if (!join(left, pair)) continue;
            for (const int32_t i : {symbols_[left].prev, left})
                if (i >= 0 && consider(i, find))
                    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
    }

    template <class Sink>
    void each(Sink &&sink) const {
        for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[i].next) sink(symbols_[i]);
    }

 private:
    static constexpr size_t kShort = 24;  // longer rows are faster with the heap and linked list

    template <class Find>
    void run_short(Find &&find) {
        std::array<Merge, kShort> merges;
        const auto look = [&](size_t i) { merges[i] = find(symbols_[i], symbols_[i + 1]); };
        for (size_t i = 0; i + 1 < symbols_.size(); ++i) look(i);
        for (;;) {
            size_t best = symbols_.size();
            for (size_t i = 0; i + 1 < symbols_.size(); ++i)
                if (merges[i].id >= 0 && (best == symbols_.size() ||
                                          merges[i].order < merges[best].order))
                    best = i;
            if (best == symbols_.size()) break;
            symbols_[best].id = merges[best].id;
            symbols_[best].size += symbols_[best + 1].size;
            symbols_.erase(symbols_.begin() + best + 1);
            for (size_t i = best + 1; i + 1 < symbols_.size(); ++i) merges[i] = merges[i + 1];
            if (best) look(best - 1);
            if (best + 1 < symbols_.size()) look(best);
        }
        for (size_t i = 0; i < symbols_.size(); ++i)
            symbols_[i].next = i + 1 < symbols_.size() ? static_cast<int32_t>(i) + 1 : -1;
    }

    struct Pair {
        uint64_t key;   // order << 32 | index of the left symbol
        uint32_t size;  // bytes of both symbols when the pair was pushed
        int32_t id;
        bool operator>(const Pair &other) const { return key > other.key; }
    };

    template <class Find>
    bool consider(int32_t left, Find &&find) {
        const Symbol &a = symbols_[left];
        if (a.next < 0) return false;
        const Symbol &b = symbols_[a.next];
        const Merge merge = find(a, b);
        if (merge.id < 0) return false;
        const uint64_t key = static_cast<uint64_t>(merge.order) << 32 | static_cast<uint32_t>(left);
        heap_.push_back({key, a.size + b.size, merge.id});
        return true;
    }

    // Symbols only grow, so a pair is still valid if and only if both symbols exist and their sizes
    // add up to the same number.
    bool join(int32_t left, const Pair &pair) {
        Symbol &a = symbols_[left];
        if (a.size == 0 || a.next < 0) return false;
        Symbol &b = symbols_[a.next];
        if (a.size + b.size != pair.size) return false;
        a = {pair.id, a.begin, pair.size, a.prev, b.next};
        b.size = 0;
        if (a.next >= 0) symbols_[a.next].prev = left;
        return true;
    }

    std::vector<Symbol> symbols_;
    std::vector<Pair> heap_;
};

}  // namespace unladen::tok
