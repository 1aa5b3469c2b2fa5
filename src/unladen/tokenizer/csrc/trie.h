// Finds strings by their prefixes.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace unladen::tok {

// A trie over bytes. One hash table holds its edges, so it is built in one pass and a step costs
// the same however many children a node has. All strings together have less than 2^28 bytes.
class Trie {
 public:
    static constexpr int32_t kRoot = 0;
    // A string that is added again gets the new value. Values are >= 0.
    void add(std::string_view text, int32_t value);
    // The child of `node` by `byte`; -1: none.
    int32_t step(int32_t node, uint8_t byte) const {
        const uint64_t edge = edges_[probe(key(node, byte))];
        return edge ? static_cast<int32_t>(edge & kChild) : -1;
    }
    int32_t value(int32_t node) const { return values_[node]; }  // -1: no string ends here

 private:
    // An edge is parent (28 bits), byte (8), child (28). No edge leads to the root, so 0 means no
    // edge.
    static constexpr uint64_t kChild = (1u << 28) - 1;
    static uint64_t key(int32_t node, uint8_t byte) {
        return static_cast<uint64_t>(node) << 8 | byte;
    }
    size_t probe(uint64_t key) const;
    void grow();

    std::vector<uint64_t> edges_ = std::vector<uint64_t>(16);
    int shift_ = 60;  // 64 less the logarithm of edges_'s size
    std::vector<int32_t> values_ = {-1};
};

}  // namespace unladen::tok
