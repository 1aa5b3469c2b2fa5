// The pages of a mapped file: into the page table before anybody waits for them, and out again.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace unladen {

using Bytes = std::span<const uint8_t>;

// Maps those pages of `ranges` that the system has in memory anyway, in their order, in a thread of
// its own, until it is through or stopped. Where it can't, whoever reads a page maps it, as ever.
class PagesAhead {
public:
    explicit PagesAhead(const std::vector<Bytes> &ranges);
    ~PagesAhead() { stop(); }
    PagesAhead(const PagesAhead &) = delete;
    PagesAhead &operator=(const PagesAhead &) = delete;

    void stop();
    void finish();  // takes part in what is left

private:
    void map_pieces();
    void join();

    std::vector<Bytes> pieces_;
    std::atomic<size_t> next_{0};
    std::unique_ptr<std::thread> thread_;
    int process_ = 0;  // in which the thread runs: a forked child doesn't have it
};

// Gives back the whole pages within `data`, which must be those of a file that is mapped to be
// read: others would come back empty.
void drop_pages(Bytes data, unsigned n_threads);

// Gives the system back what has been freed, of which glibc keeps some for later.
void trim_heap();

}  // namespace unladen
