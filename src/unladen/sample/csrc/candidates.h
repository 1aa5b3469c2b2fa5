// The tokens still in play, in the order of their ids. They begin as the caller's logits, where a
// position is an id; only a step that changes logits makes a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace unladen::sample {

// Python sees it as unladen.sample.base.BadLogits.
struct BadLogits : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Ranked {
    float logit;
    uint32_t position;
};

class Candidates {
public:
    // ids: ascending, or null where the position is the id. Throws BadLogits at NaN or +inf.
    Candidates(const float *logits, const int32_t *ids, size_t n);

    size_t size() const { return n_; }
    const float *logits() const { return logits_; }
    int32_t id(size_t position) const { return ids_ ? ids_[position] : int32_t(position); }
    bool find(int32_t id, size_t &position) const;
    float max();

    // Call touched() after changing values in any other way than a division.
    float *writable();
    void touched() { max_known_ = false; }
    void divide(float divisor);

    // The k best by falling logit, the lower position first in a tie; those at -inf don't count.
    std::vector<Ranked> best(size_t k) const;

    // Fills weights()[0..size) and returns their sum; throws BadLogits unless the max is finite.
    uint64_t weigh();
    const uint64_t *weights() const;

    void keep(const std::vector<uint32_t> &positions);  // ascending
    void keep_best(size_t k);
    // Those whose bit is set; throws BadLogits where none is left. `words` has a bit for each id.
    void keep_allowed(const uint32_t *words);
    void drop_banned();  // those at -inf, which the NumPy definitions never see

    int32_t chosen = -1;

private:
    const float *logits_;
    const int32_t *ids_;
    size_t n_;
    float max_;
    bool max_known_ = true;
};

}  // namespace unladen::sample
