#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

constexpr double largest = std::numeric_limits<float>::max();

struct Dry final : Step {
    explicit Dry(const Parameters &p)
        : multiplier(p.at(0)), base(p.at(1)), allowed_length(whole<size_t>(p.at(2))),
          last_n(whole<int64_t>(p.at(3))) {
        for (size_t i = 4; i < p.size();) {
            const size_t n = whole<size_t>(p[i++]);
            std::vector<int32_t> breaker;
            for (size_t j = 0; j < n; j++) breaker.push_back(whole<int32_t>(p.at(i++)));
            if (n == 1) single.insert(breaker[0]);
            longest_breaker = std::max(longest_breaker, n);
            breakers[breaker.at(0)].push_back(std::move(breaker));
        }
    }

    void apply(Candidates &c, State &state) const override {
        const std::vector<int32_t> &all = state.history();
        const size_t n = last_n < 0 ? all.size() : std::min(all.size(), size_t(last_n));
        if (multiplier == 0 || n <= allowed_length) return;
        const int32_t *history = all.data() + all.size() - n;
        const size_t limit = since_breaker(history, n);
        if (limit < allowed_length) return;
        std::unordered_map<int32_t, size_t> longest;
        const std::vector<size_t> lengths = repetitions(history, n);
        for (size_t k = 1; k < n; k++) {
            const size_t length = std::min(lengths[k], limit);
            if (length < allowed_length) continue;
            size_t &most = longest[history[n - k]];
            most = std::max(most, length);
        }
        if (longest.empty()) return;
        float *logits = c.writable();
        for (auto [token, length] : longest)
            if (size_t at; !single.contains(token) && c.find(token, at))
                logits[at] -= penalty(length);
        c.touched();
    }

private:
    // The number of tokens after the last breaker, n where there is none.
    size_t since_breaker(const int32_t *history, size_t n) const {
        size_t end = 0;
        for (size_t begin = n; begin-- > 0 && begin + longest_breaker > end;) {
            auto found = breakers.find(history[begin]);
            if (found == breakers.end()) continue;
            for (const auto &breaker : found->second)
                if (breaker.size() <= n - begin &&
                    std::equal(breaker.begin(), breaker.end(), history + begin))
                    end = std::max(end, begin + breaker.size());
        }
        return n - end;
    }

    // For each k, how many of the last tokens are the same k tokens earlier: the Z function
    // (Gusfield 1997) of the history read backwards.
    static std::vector<size_t> repetitions(const int32_t *history, size_t n) {
        auto at = [&](size_t i) { return history[n - 1 - i]; };
        std::vector<size_t> z(n);
        for (size_t k = 1, begin = 0, end = 0; k < n; k++) {
            if (k < end) z[k] = std::min(end - k, z[k - begin]);
            while (k + z[k] < n && at(z[k]) == at(k + z[k])) z[k]++;
            if (k + z[k] > end) begin = k, end = k + z[k];
        }
        return z;
    }

    float penalty(size_t length) const {
        const double most = base > 1.000001
            ? std::trunc(std::log(largest) / std::log(base)) : 2147483648.0;
        const double power = std::pow(base, std::min(double(length - allowed_length), most));
        return float(std::min(multiplier * power, largest));
    }

    double multiplier, base;
    size_t allowed_length, longest_breaker = 0;
    int64_t last_n;
    std::unordered_map<int32_t, std::vector<std::vector<int32_t>>> breakers;
    std::set<int32_t> single;
};

const Registered<Dry> registered("dry");

}  // namespace
}  // namespace unladen::sample
