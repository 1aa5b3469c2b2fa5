// Whether other programs are on the cores that regions want, and what to do about it.
#pragma once

#include <chrono>

namespace unladen::cpu {

// A thread off its core with a tile keeps all others waiting, for longer than it helps. Where that
// happens one thread fewer is asked for most of the time, and all in bursts that are shorter than
// what a scheduler takes away at once, for a share of the time that grows as long as none is
// interrupted. For tiles that can be computed apart there are two ways, of which the faster one is
// found by trying: all threads are asked, and tiles taken back; or one fewer and no bursts, for
// where memory gives the others nearly as much as all, a core for each is worth more.
class Crowding {
public:
    using Clock = std::chrono::steady_clock;

    // How many of n_threads to ask.
    int limit(int n_threads) {
        return n_fewer_ == 0 ? n_threads : limit_at(Clock::now(), n_threads);
    }
    bool is_crowded() const { return n_fewer_ > 0; }
    // How many of n_threads are left a core each.
    int fewer(int n_threads) const { return n_threads > n_fewer_ ? n_threads - n_fewer_ : 1; }
    // All waited so long for one, in a region of n_threads.
    void waited(Clock::duration time, int n_threads);

    // Which of the ways to go, where tiles can be computed apart.
    bool apart_is_faster() const { return way_ == 0 || keeps_apart_; }
    // What was done that way, and how long it took.
    void did(double cost, Clock::duration time);
    // No trials: for tests, which want the way that is harder to get right.
    void keep_apart() { keeps_apart_ = true; }

    static constexpr std::chrono::microseconds burst{500};
    static constexpr std::chrono::milliseconds bearable{4};

private:
    int limit_at(Clock::time_point now, int n_threads);

    static constexpr std::chrono::seconds lonely{1};
    static constexpr double least_share = 0.05, first_share = 0.4;
    // A way is tried for so long, and the other one again after so long: after twice as long each
    // time it turns out slower again, for as long as speeds are remembered.
    static constexpr std::chrono::milliseconds trial{20}, first_again{100}, remembered{2000};

    Clock::duration lost_{};
    Clock::time_point waited_{};
    Clock::time_point seen_{};  // crowded
    int n_fewer_ = 0;
    double share_ = 1.0;        // of the time in which all are asked
    double growth_ = 0.0;       // of it in a second: much after something that happened just once
    Clock::duration credit_{};  // left of a burst, or below zero
    bool in_burst_ = false;

    struct Way {
        double speed = 0;
        Clock::time_point tried{};
    } ways_[2];
    int way_ = 0;
    bool is_trial_ = false;
    Clock::duration again_ = first_again;
    bool keeps_apart_ = false;
    double cost_ = 0;
    Clock::duration time_{};
};

}  // namespace unladen::cpu
