#include "backends/cpu/csrc/crowding.h"

#include <algorithm>

namespace unladen::cpu {

void Crowding::waited(Clock::duration time, int n_threads) {
    const auto now = Clock::now();
    lost_ = std::max(lost_ - (now - waited_) / 10, Clock::duration{}) + time;
    waited_ = now;
    if (lost_ < bearable) return;
    lost_ = bearable / 2;
    growth_ = now - seen_ < lonely ? 1.0 : 4.0;
    if (n_fewer_ == 0 || share_ < least_share) {
        n_fewer_ = std::min(n_fewer_ + 1, n_threads - 1);
        share_ = first_share;
    } else {
        share_ /= 2;
    }
    in_burst_ = false;
    credit_ = Clock::duration{};
    seen_ = now;
}

int Crowding::limit_at(Clock::time_point now, int n_threads) {
    const std::chrono::duration<double> passed = now - seen_;
    seen_ = now;
    share_ += growth_ * passed.count();
    if (share_ >= 1.0) {
        --n_fewer_;
        share_ = first_share;
    }
    credit_ += std::chrono::duration_cast<Clock::duration>(
        passed * (in_burst_ ? share_ - 1 : share_));
    credit_ = std::clamp<Clock::duration>(credit_, -burst, burst);
    if (credit_ >= burst * (1 - share_)) in_burst_ = true;
    if (credit_ <= Clock::duration{}) in_burst_ = false;
    return std::max(1, in_burst_ ? n_threads : n_threads - n_fewer_);
}

void Crowding::did(double cost, Clock::duration time) {
    cost_ += cost;
    time_ += time;
    if (time_ < trial) return;
    const auto now = Clock::now();
    const double speed = cost_ / std::chrono::duration<double>(time_).count();
    Way &way = ways_[way_], &other = ways_[!way_];
    if (now - std::max(way.tried, other.tried) >= remembered) again_ = first_again;
    way.speed = now - way.tried < remembered ? (way.speed + speed) / 2 : speed;
    way.tried = now;
    const bool is_slower = other.speed > way.speed, is_due = now - other.tried >= again_;
    if (is_trial_ && !is_slower) {
        again_ = first_again;
    } else if (!is_trial_ && is_due) {
        again_ = std::min<Clock::duration>(2 * again_, remembered);
    }
    is_trial_ = !is_trial_ && (is_slower || is_due);
    if (is_slower || is_due) way_ = !way_;
    cost_ = 0;
    time_ = Clock::duration{};
}

}  // namespace unladen::cpu
