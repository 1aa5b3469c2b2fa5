#include <algorithm>
#include <array>

#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

constexpr size_t kFew = 256;       // best candidates among which the nucleus is sought first
constexpr size_t kBuckets = 2048;  // then buckets by distance from the max, 64 per unit of logit

struct TopP final : Step {
    explicit TopP(const Parameters &p) : p(p.at(0)), min_keep(whole<size_t>(p.at(1))) {}

    void apply(Candidates &c, State &) const override {
        if (p >= 1) return;
        double target = p * double(c.weigh());
        std::vector<uint32_t> kept;
        uint64_t sum = 0;
        if (add_until(target, c.best(kFew), c.weights(), sum, kept))
            std::sort(kept.begin(), kept.end());
        else
            kept = by_bucket(c, target);
        if (kept.size() < min_keep)
            c.keep_best(min_keep);
        else
            c.keep(kept);
    }

    double p;
    size_t min_keep;

private:
    // Appends positions in the order of `ranked` until the sum of weights reaches the target.
    // Returns whether it does.
    static bool add_until(double target, const std::vector<Ranked> &ranked,
                          const uint64_t *weights, uint64_t &sum, std::vector<uint32_t> &kept) {
        for (const Ranked &each : ranked) {
            kept.push_back(each.position);
            sum += weights[each.position];
            if (double(sum) >= target) return true;
        }
        return false;
    }

    // The nucleus as ascending positions. Sorts only the bucket in which the sum reaches the
    // target.
    static std::vector<uint32_t> by_bucket(Candidates &c, double target) {
        const float max = c.max();
        auto bucket = [&](size_t i) {
            return size_t(std::min((max - c.logits()[i]) * 64.0f, float(kBuckets - 1)));
        };
        std::array<uint64_t, kBuckets> sums{};
        for (size_t i = 0; i < c.size(); ++i) sums[bucket(i)] += c.weights()[i];
        size_t crossing = 0;
        uint64_t sum = 0;
        while (double(sum + sums[crossing]) < target) sum += sums[crossing++];
        std::vector<uint32_t> kept;
        std::vector<Ranked> ranked;
        for (size_t i = 0; i < c.size(); ++i) {
            size_t at = bucket(i);
            if (at < crossing) kept.push_back(uint32_t(i));
            if (at == crossing) ranked.push_back({c.logits()[i], uint32_t(i)});
        }
        std::stable_sort(ranked.begin(), ranked.end(),
                         [](const Ranked &a, const Ranked &b) { return a.logit > b.logit; });
        auto from_crossing = std::ptrdiff_t(kept.size());
        add_until(target, ranked, c.weights(), sum, kept);
        std::sort(kept.begin() + from_crossing, kept.end());
        std::inplace_merge(kept.begin(), kept.begin() + from_crossing, kept.end());
        return kept;
    }
};

const Registered<TopP> registered("top_p");

}  // namespace
}  // namespace unladen::sample
