#include "sample/csrc/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "sample/csrc/arithmetic.h"

namespace unladen::sample {
namespace {

// Scratch memory, one for each thread. Allocating it for each token would cost more than sampling.
struct Scratch {
    std::vector<float> logits;
    std::vector<int32_t> ids;
    std::vector<uint64_t> weights, keys;
};
thread_local Scratch scratch;

// If a constraint keeps at most one candidate in kGathered, those are gathered. Otherwise the
// others are set to -inf in a copy of all logits, at a cost that grows with their number.
constexpr size_t kGathered = 8;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

// The most candidates whose weights, up to 2**kWeightBits each, can be summed in 64 bits.
constexpr size_t kMaxTokens = size_t{1} << (63 - kWeightBits);

// A key that orders by logit, then by falling position. Adding zero makes -0 and 0 equal.
uint64_t key(float logit, size_t position) {
    uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
    bits ^= bits >> 31 ? 0xFFFFFFFFu : 0x80000000u;
    return uint64_t{bits} << 32 | uint32_t(~uint32_t(position));
}

}  // namespace

Candidates::Candidates(const float *logits, const int32_t *ids, size_t n)
    : logits_(logits), ids_(ids), n_(n) {
    if (n > kMaxTokens) throw BadLogits("more than 2**23 logits");
    Scan found = scan(logits, n);
    if (found.is_nan || found.max == std::numeric_limits<float>::infinity())
        throw BadLogits("the logits hold NaN or +inf");
    max_ = found.max;
}

float Candidates::max() {
    if (!max_known_) max_ = scan(logits_, n_).max;
    max_known_ = true;
    return max_;
}

bool Candidates::find(int32_t id, size_t &position) const {
    if (!ids_) {
        position = size_t(id);
        return id >= 0 && position < n_;
    }
    const int32_t *at = std::lower_bound(ids_, ids_ + n_, id);
    position = size_t(at - ids_);
    return position < n_ && *at == id;
}

float *Candidates::writable() {
    if (logits_ != scratch.logits.data()) {
        scratch.logits.assign(logits_, logits_ + n_);
        logits_ = scratch.logits.data();
    }
    return scratch.logits.data();
}

void Candidates::divide(float divisor) {
    sample::divide(writable(), n_, divisor);
    max_ /= divisor;
}

std::vector<Ranked> Candidates::best(size_t k) const {
    std::vector<uint64_t> &keys = scratch.keys;
    keys.clear();
    k = std::min(k, n_);
    size_t capacity = std::max<size_t>(2 * k, 256);
    float threshold = -std::numeric_limits<float>::infinity();
    auto shrink = [&] {
        std::nth_element(keys.begin(), keys.begin() + std::ptrdiff_t(k - 1), keys.end(),
                         std::greater<>());
        keys.resize(k);
        threshold = logits_[uint32_t(~uint32_t(keys[k - 1]))];
    };
    constexpr size_t kBlock = 128;
    for (size_t start = 0; k && start < n_; start += kBlock) {
        size_t end = std::min(start + kBlock, n_);
        if (!any_above(logits_ + start, end - start, threshold)) continue;
        for (size_t i = start; i < end; ++i)
            // An equal logit at a later position ranks lower, so only larger ones than the k-th
            // best so far can be among the best.
            if (logits_[i] > threshold) {
                keys.push_back(key(logits_[i], i));
                if (keys.size() == capacity && k < n_) shrink();
            }
    }
    if (keys.size() > k) shrink();
    std::sort(keys.begin(), keys.end(), std::greater<>());
    std::vector<Ranked> ranked;
    ranked.reserve(keys.size());
    for (uint64_t each : keys) {
        uint32_t position = ~uint32_t(each);
        ranked.push_back({logits_[position], position});
    }
    return ranked;
}

uint64_t Candidates::weigh() {
    if (!std::isfinite(max()))
        throw BadLogits(max_ < 0 ? "no candidate has a finite logit"
                                 : "a step overflowed a logit to +inf");
    scratch.weights.resize(std::max(scratch.weights.size(), n_));
    return sample::weigh(logits_, n_, max_, scratch.weights.data());
}

const uint64_t *Candidates::weights() const { return scratch.weights.data(); }

void Candidates::keep(const std::vector<uint32_t> &positions) {
    // Works in place where logits_ is the scratch: position i is never below index i.
    scratch.logits.resize(std::max(scratch.logits.size(), positions.size()));
    scratch.ids.resize(std::max(scratch.ids.size(), positions.size()));
    for (size_t i = 0; i < positions.size(); ++i) {
        scratch.logits[i] = logits_[positions[i]];
        scratch.ids[i] = id(positions[i]);
    }
    logits_ = scratch.logits.data();
    ids_ = scratch.ids.data();
    n_ = positions.size();
    touched();
}

void Candidates::keep_best(size_t k) {
    std::vector<uint32_t> positions;
    for (const Ranked &each : best(k)) positions.push_back(each.position);
    std::sort(positions.begin(), positions.end());
    keep(positions);
}

void Candidates::keep_allowed(const uint32_t *words) {
    std::vector<uint32_t> positions;
    if (ids_) {
        for (size_t i = 0; i < n_; ++i)
            if (words[ids_[i] >> 5] >> (ids_[i] & 31) & 1) positions.push_back(uint32_t(i));
        keep(positions);
    } else {
        // Positions are ids here. The last word may have bits beyond the last position.
        auto valid = [this](size_t first) {
            return n_ - first < 32 ? (uint32_t{1} << (n_ - first)) - 1 : ~uint32_t{0};
        };
        auto for_each_bit = [](uint32_t bits, size_t first, auto &&visit) {
            for (; bits; bits &= bits - 1) visit(first + size_t(std::countr_zero(bits)));
        };
        size_t n_allowed = 0;
        for (size_t i = 0; i < n_; i += 32)
            n_allowed += size_t(std::popcount(words[i / 32] & valid(i)));
        if (n_allowed <= n_ / kGathered) {
            positions.reserve(n_allowed);
            for (size_t i = 0; i < n_; i += 32)
                for_each_bit(words[i / 32] & valid(i), i,
                             [&](size_t at) { positions.push_back(uint32_t(at)); });
            keep(positions);
        } else if (n_allowed < n_) {
            float *logits = writable();
            for (size_t i = 0; i < n_; i += 32)
                for_each_bit(~words[i / 32] & valid(i), i,
                             [&](size_t at) { logits[at] = kBanned; });
            touched();
        }
    }
    if (n_ == 0 || max() == kBanned)
        throw BadLogits("the constraint allows none of the candidates");
}

void Candidates::drop_banned() {
    if (std::find(logits_, logits_ + n_, kBanned) == logits_ + n_) return;
    std::vector<uint32_t> positions;
    for (size_t i = 0; i < n_; ++i)
        if (logits_[i] != kBanned) positions.push_back(uint32_t(i));
    if (positions.empty()) throw BadLogits("no candidate has a finite logit");
    keep(positions);
}

}  // namespace unladen::sample
