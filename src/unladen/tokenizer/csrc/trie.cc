#include "tokenizer/csrc/trie.h"

#include <stdexcept>
#include <utility>

#include "tokenizer/csrc/strings.h"

namespace unladen::tok {

size_t Trie::probe(uint64_t key) const {
    const size_t mask = edges_.size() - 1;
    size_t at = hash(key) >> shift_;
    while (edges_[at] && edges_[at] >> 28 != key) at = (at + 1) & mask;
    return at;
}

void Trie::grow() {
    const std::vector<uint64_t> old = std::exchange(edges_, std::vector<uint64_t>(
        edges_.size() * 2));
    --shift_;
    for (const uint64_t edge : old)
        if (edge) edges_[probe(edge >> 28)] = edge;
}

void Trie::add(std::string_view text, int32_t value) {
    int32_t node = kRoot;
    for (const char c : text) {
        const uint64_t k = key(node, static_cast<uint8_t>(c));
        size_t at = probe(k);
        if (!edges_[at]) {
            if (values_.size() > kChild) throw std::invalid_argument("has too many prefixes");
            if (2 * values_.size() >= edges_.size()) {
                grow();
                at = probe(k);
            }
            edges_[at] = k << 28 | values_.size();
            values_.push_back(-1);
        }
        node = static_cast<int32_t>(edges_[at] & kChild);
    }
    values_[node] = value;
}

}  // namespace unladen::tok
