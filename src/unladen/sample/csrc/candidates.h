// The tokens that may still be chosen, in the order of their ids. At first they are the caller's
// logits, where a position is an id. A step that changes logits or drops some makes a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace unladen::sample {

// Raised in Python as unladen.sample.base.BadLogits.
struct BadLogits : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Ranked {
    float logit;
    uint32_t position;
};

class Candidates {
public:
    // `ids` ascend, or are null where positions are ids. Throws BadLogits for NaN or +inf.
    Candidates(const float *logits, const int32_t *ids, size_t n);

    size_t size() const { return n_; }
    const float *logits() const { return logits_; }
    int32_t id(size_t position) const { return ids_ ? ids_[position] : int32_t(position); }
    bool find(int32_t id, size_t &position) const;
    float max();

    // The logits to change. Call touched() afterwards, except after dividing all of them.
    float *writable();
    void touched() { max_known_ = false; }
    void divide(float divisor);

    // The k best by falling logit, the lower position first in a tie, without those at -inf.
    std::vector<Ranked> best(size_t k) const;

    // Fills weights()[0..size) and returns their sum; throws BadLogits unless the max is finite.
    uint64_t weigh();
    const uint64_t *weights() const;

    void keep(const std::vector<uint32_t> &positions);  // ascending
    void keep_best(size_t k);
    // Keeps the candidates whose bit is set in `words`, which has a bit for each id. Throws
    // BadLogits where none is left.
    void keep_allowed(const uint32_t *words);
    void drop_banned();  // drops those at -inf, as the NumPy definitions expect

    int32_t chosen = -1;

private:
    const float *logits_;
    const int32_t *ids_;
    size_t n_;
    float max_;
    bool max_known_ = true;
};

}  // namespace unladen::sample
