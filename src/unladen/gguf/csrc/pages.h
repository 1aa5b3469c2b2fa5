// Puts the pages of a mapped file into the page table before they are read, and drops them again.
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

// Maps the pages of `ranges` that the system has in memory already, in their order, in a background
// thread, until all are mapped or it is stopped. A page that it doesn't map is mapped when it is
// first read.
class PagesAhead {
public:
    explicit PagesAhead(const std::vector<Bytes> &ranges);
    ~PagesAhead() { stop(); }
    PagesAhead(const PagesAhead &) = delete;
    PagesAhead &operator=(const PagesAhead &) = delete;

    void stop();
    void finish();  // maps the remaining pages together with the thread, then returns

private:
    void map_pieces();
    void join();

    std::vector<Bytes> pieces_;
    std::atomic<size_t> next_{0};
    std::unique_ptr<std::thread> thread_;
    int process_ = 0;  // id of the process that the thread runs in: a forked child has no thread
};

// Gives the whole pages within `data` back to the system. `data` must be a read-only mapping of a
// file, which is read again when needed: other memory would lose its contents.
void drop_pages(Bytes data, unsigned n_threads);

// Gives freed memory that glibc still holds back to the system.
void trim_heap();

}  // namespace unladen
