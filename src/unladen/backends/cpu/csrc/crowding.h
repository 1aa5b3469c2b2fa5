// Notices when other programs run on the cores that regions want, and decides how many threads to
// ask then.
#pragma once

#include <chrono>

namespace unladen::cpu {

// A thread that is taken off its core while it has a tile keeps all others waiting, for longer than
// it helps. After that has happened, regions get one thread fewer for most of the time. They get
// all threads in bursts, which are shorter than the time that a scheduler takes away at once. The
// share of the bursts grows as long as no thread is interrupted. Tiles that can be computed apart
// allow two ways: all threads are asked, and tiles of interrupted ones are taken back; or one
// thread fewer is asked, without bursts. Which one is faster depends on how much memory bandwidth
// the last thread adds, so both are tried and timed.
class Crowding {
public:
    using Clock = std::chrono::steady_clock;

    // How many of n_threads to ask.
    int limit(int n_threads) {
        return n_fewer_ == 0 ? n_threads : limit_at(Clock::now(), n_threads);
    }
    bool is_crowded() const { return n_fewer_ > 0; }
    // How many of n_threads have a core to themselves.
    int fewer(int n_threads) const { return n_threads > n_fewer_ ? n_threads - n_fewer_ : 1; }
    // Reports that all threads of a region of n_threads waited for one of them, and how long.
    void waited(Clock::duration time, int n_threads);

    // Whether tiles that can be computed apart should be: the way that was faster so far.
    bool apart_is_faster() const { return way_ == 0 || keeps_apart_; }
    // Reports the cost of a region that went the chosen way, and how long it took.
    void did(double cost, Clock::duration time);
    // Always computes tiles apart: tests want the way that is harder to get right.
    void keep_apart() { keeps_apart_ = true; }

    // The length of a burst, below the time that a scheduler takes from a thread at once.
    static constexpr std::chrono::microseconds burst{500};
    // The waiting time after which one thread fewer is asked; a tenth of the time that passes is
    // forgiven.
    static constexpr std::chrono::milliseconds bearable{4};

private:
    int limit_at(Clock::time_point now, int n_threads);

    // An interruption this long after the last one counts as the only one: the share grows fast.
    static constexpr std::chrono::seconds lonely{1};
    // The share of the bursts after a thread was given up, and the one below which another is.
    static constexpr double first_share = 0.4, least_share = 0.05;
    // The time that a way is measured for, and the time until the other way is measured again. That
    // time doubles whenever the other way is slower again, up to the time that speeds are kept for.
    static constexpr std::chrono::milliseconds trial{20}, first_again{100}, remembered{2000};

    Clock::duration lost_{};
    Clock::time_point waited_{};
    Clock::time_point seen_{};  // when limit_at() was last asked while the cores were crowded
    int n_fewer_ = 0;
    double share_ = 1.0;        // of the time, in which all threads are asked
    double growth_ = 0.0;       // of share_ in a second
    Clock::duration credit_{};  // what is left of a burst, or below zero
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
