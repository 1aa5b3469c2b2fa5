// The state that a chain keeps for one sequence: its random generator and the accepted tokens.
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

// The tokens that a constraint allows: bit t % 32 of word t / 32 is set for token t.
struct Mask {
    const uint32_t *words;
    size_t n_words;
};

class State {
public:
    using Counts = std::unordered_map<int32_t, int32_t>;

    explicit State(uint64_t seed);

    uint64_t random();  // by xoshiro256**, as in rng.py
    void accept(int32_t token);
    const std::vector<int32_t> &history() const { return history_; }

    // How often each token occurs among the last `last_n` (-1: all). From the first call on each
    // accepted token updates the counts, so a long window costs no more than a short one.
    const Counts &counts(int32_t last_n);

    // A number that a step keeps from token to token, under the step's name.
    double &number(const std::string &name, double initial) {
        return numbers_.try_emplace(name, initial).first->second;
    }

    std::vector<Mask> masks;  // of the chain's constraints; set for one run

    std::mutex mutex;  // held while the state is used without Python's lock

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
