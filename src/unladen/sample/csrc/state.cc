#include "sample/csrc/state.h"

#include <bit>

namespace unladen::sample {

State::State(uint64_t seed) {
    for (uint64_t &word : s_) {  // splitmix64
        seed += 0x9E3779B97F4A7C15u;
        uint64_t z = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        word = z ^ (z >> 31);
    }
}

uint64_t State::random() {
    uint64_t result = std::rotl(s_[1] * 5, 7) * 9;
    uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = std::rotl(s_[3], 45);
    return result;
}

void State::admit(Window &window, size_t at) {
    ++window.counts[history_[at]];
    if (window.last_n < 0 || at < size_t(window.last_n)) return;
    auto old = window.counts.find(history_[at - window.last_n]);
    if (--old->second == 0) window.counts.erase(old);
}

void State::accept(int32_t token) {
    history_.push_back(token);
    for (Window &window : windows_) admit(window, history_.size() - 1);
}

const State::Counts &State::counts(int32_t last_n) {
    for (const Window &window : windows_)
        if (window.last_n == last_n) return window.counts;
    Window &window = windows_.emplace_back(Window{last_n, {}});
    for (size_t at = 0; at < history_.size(); ++at) admit(window, at);
    return window.counts;
}

}  // namespace unladen::sample
