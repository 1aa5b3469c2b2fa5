#include <algorithm>

#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

struct Target {
    double tau, eta;

    double &mu(State &state, const char *name) const { return state.number(name, 2 * tau); }

    void choose(Candidates &c, State &state, double &mu) const {
        const uint64_t total = c.weigh();
        const size_t at = draw(c, total, state);
        const double surprise = (below_max(c, at) + log_total(total)) / std::numbers::ln2;
        c.chosen = c.id(at);
        mu -= eta * (surprise - tau);
    }
};

struct Mirostat final : Step {
    explicit Mirostat(const Parameters &p) : target{p.at(0), p.at(1)}, m(whole<size_t>(p.at(2))) {}

    void apply(Candidates &c, State &state) const override {
        c.drop_banned();
        double &mu = target.mu(state, "mirostat");
        c.keep_best(n_kept(c, mu));
        target.choose(c, state, mu);
    }

    size_t n_kept(const Candidates &c, double mu) const {
        const std::vector<Ranked> best = c.best(m);
        const size_t n = c.size();
        double slope = 0, squares = 0;
        for (size_t i = 0; i + 1 < best.size(); i++) {
            double t = std::log(double(i + 2) / double(i + 1));
            slope += t * (double(best[i].logit) - double(best[i + 1].logit));
            squares += t * t;
        }
        const double s_hat = slope / squares, epsilon = s_hat - 1;
        const double k = std::pow(
            epsilon * std::pow(2.0, mu) / (1 - std::pow(double(n), -epsilon)), 1 / s_hat);
        // All candidates where k is infinite, undefined or larger than n.
        if (!std::isfinite(k) || k >= double(n)) return n;
        return std::max<size_t>(size_t(std::max(k, 0.0)), 1);
    }

    Target target;
    size_t m;
};

struct MirostatV2 final : Step {
    explicit MirostatV2(const Parameters &p) : target{p.at(0), p.at(1)} {}

    void apply(Candidates &c, State &state) const override {
        c.drop_banned();
        double &mu = target.mu(state, "mirostat_v2");
        const double norm = log_total(c.weigh()), most = mu * std::numbers::ln2;
        std::vector<uint32_t> kept;
        for (size_t i = 0; i < c.size(); i++)
            if (below_max(c, i) + norm <= most) kept.push_back(uint32_t(i));
        if (kept.empty())
            c.keep_best(1);
        else
            c.keep(kept);
        target.choose(c, state, mu);
    }

    Target target;
};

const Registered<Mirostat> registered("mirostat");
const Registered<MirostatV2> registered_v2("mirostat_v2");

}  // namespace
}  // namespace unladen::sample
