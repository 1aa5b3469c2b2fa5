// Notices when other programs run on the cores that regions use, and decides how many threads
// regions then get.
#pragma once

#include <chrono>

namespace unladen::cpu {

// If the system interrupts a thread that has a tile, all other threads wait for it, longer than the
// thread saves. After such an interruption regions get one thread fewer most of the time. They get
// all threads only in bursts, shorter than the time for which a scheduler stops a thread. The share
// of the bursts grows as long as no thread is interrupted.
//
// With tiles that can be computed apart (see Region) there are two ways: regions get all threads,
// and other threads take tiles back from interrupted ones; or regions get one thread fewer, without
// bursts. Which way is faster depends on how much memory bandwidth the last thread adds, so both
// are tried and timed.
class Crowding {
public:
    using Clock = std::chrono::steady_clock;

    // How many of n_threads a region gets.
    int limit(int n_threads) {
        return n_fewer_ == 0 ? n_threads : limit_at(Clock::now(), n_threads);
    }
    bool is_crowded() const { return n_fewer_ > 0; }
    // How many of n_threads have a core of their own.
    int fewer(int n_threads) const { return n_threads > n_fewer_ ? n_threads - n_fewer_ : 1; }
    // Reports that all threads of a region of n_threads waited for one of them, and how long.
    void waited(Clock::duration time, int n_threads);

    // Whether to compute tiles apart where that is possible: the way that was faster so far.
    bool apart_is_faster() const { return way_ == 0 || keeps_apart_; }
    // Reports the cost and the time of a region that was computed in the chosen way.
    void did(double cost, Clock::duration time);
    // Always computes tiles apart, for tests of this way.
    void keep_apart() { keeps_apart_ = true; }

    // The length of a burst, shorter than the time for which a scheduler stops a thread.
    static constexpr std::chrono::microseconds burst{500};
    // After this much waiting regions get one thread fewer. A tenth of the time that passes is
    // subtracted from the waiting.
    static constexpr std::chrono::milliseconds bearable{4};

private:
    int limit_at(Clock::time_point now, int n_threads);

    // After so long without an interruption the next one counts as a single one, and the share
    // grows fast.
    static constexpr std::chrono::seconds lonely{1};
    // The share of the bursts after a thread was taken away, and the share below which another
    // thread is taken away.
    static constexpr double first_share = 0.4, least_share = 0.05;
    // How long a way is measured, and the first pause before the other way is measured again. The
    // pause doubles whenever the other way is slower, up to `remembered`, for which speeds are
    // kept.
    static constexpr std::chrono::milliseconds trial{20}, first_again{100}, remembered{2000};

    Clock::duration lost_{};
    Clock::time_point waited_{};
    Clock::time_point seen_{};  // when limit_at() was last asked while the cores were crowded
    int n_fewer_ = 0;
    double share_ = 1.0;        // share of the time in which regions get all threads
    double growth_ = 0.0;       // growth of share_ per second
    Clock::duration credit_{};  // time left of a burst; below zero between bursts
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
