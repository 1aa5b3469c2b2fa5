#include "engine/csrc/lookup.h"

#include <algorithm>

namespace unladen::engine {

void Lookup::add(int32_t token) {
    if (at_ != nowhere) {
        const bool hit = tokens_[at_] == token;
        double &rate = rates_[level(n_matched_)];
        rate += (hit - rate) * learning;
        ++n_matched_;
        at_ = hit ? at_ + 1 : nowhere;
    }
    tokens_.push_back(token);
    const size_t end = tokens_.size();
    if (end < n_gram) return;
    const auto [found, is_new] = ends_.try_emplace(last_key(), end);
    const size_t before = found->second;
    found->second = end;
    if (is_new || at_ != nowhere || !alike(before, end, n_gram)) return;
    at_ = before;
    n_matched_ = n_gram;
    while (n_matched_ < std::min(longest, before) && alike(before, end, n_matched_ + 1))
        ++n_matched_;
}

std::vector<double> Lookup::chances(size_t n) const {
    std::vector<double> found;
    double chance = 1;
    for (size_t i = 0; at_ != nowhere && i < n; ++i) {
        chance *= rates_[level(n_matched_ + i)];
        if (chance < least_chance) break;
        found.push_back(chance);
    }
    return found;
}

std::vector<int32_t> Lookup::draft(size_t n) const {
    std::vector<int32_t> found;
    const size_t period = tokens_.size() - at_;
    for (size_t i = 0; at_ != nowhere && i < n; ++i)
        found.push_back(i < period ? tokens_[at_ + i] : found[i - period]);
    return found;
}

uint64_t Lookup::last_key() const {
    uint64_t key = 0;
    for (size_t i = tokens_.size() - n_gram; i < tokens_.size(); ++i)
        key = (key ^ static_cast<uint32_t>(tokens_[i])) * 0x9e3779b97f4a7c15;
    return key;
}

bool Lookup::alike(size_t a, size_t b, size_t n) const {
    const auto begin = tokens_.begin();
    return std::equal(begin + (a - n), begin + a, begin + (b - n));
}

}  // namespace unladen::engine
