// What a chain remembers of one sequence: its generator and the accepted tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace unladen::sample {

// The tokens that a constraint allows: bit t % 32 of word t / 32 for token t.
struct Mask {
    const uint32_t *words;
    size_t n_words;
};

class State {
public:
    using Counts = std::unordered_map<int32_t, int32_t>;

    explicit State(uint64_t seed);

    uint64_t random();  // xoshiro256**, rng.py
    void accept(int32_t token);
    const std::vector<int32_t> &history() const { return history_; }

    // How often each token occurs among the last last_n (-1: all). Counts are updated token by
    // token from the first call on, so a long window costs no more than a short one.
    const Counts &counts(int32_t last_n);

    // What a step keeps between two tokens, under its own name.
    double &number(const std::string &name, double initial) {
        return numbers_.try_emplace(name, initial).first->second;
    }

    std::vector<Mask> masks;  // those of the constraints in the chain, lent for the next run

    std::mutex mutex;  // held by whoever uses the state while the interpreter lock is released

private:
    struct Window {
        int32_t last_n;
        Counts counts;
    };
    void admit(Window &window, size_t at);

    uint64_t s_[4];
    std::vector<int32_t> history_;
    std::list<Window> windows_;
    std::map<std::string, double> numbers_;
};

}  // namespace unladen::sample
