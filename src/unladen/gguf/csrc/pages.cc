#include "gguf/csrc/pages.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace unladen {
namespace {

// Bytes that a thread maps before it takes the next piece.
constexpr size_t piece_bytes = 1 << 20;
// Linux maps this many bytes around a byte that is read, so reading one byte in each stretch of
// this size maps all of it. MADV_POPULATE_READ would take two thirds of the time, but it locks the
// process's memory map: a thread that maps or unmaps anything meanwhile, as every import does,
// would wait for milliseconds.
constexpr size_t around_bytes = 64 << 10;
// drop_pages starts one thread for each stretch of this size: starting a thread takes as long as
// dropping some hundred pages.
constexpr size_t least_bytes = 64 << 20;

#if defined(__linux__)
uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

// Address of the page that holds a byte.
void *page_of(const uint8_t *byte) {
    const auto address = reinterpret_cast<uintptr_t>(byte);
    return reinterpret_cast<void *>(address / page_bytes() * page_bytes());
}

bool in_memory(const uint8_t *byte) {
    unsigned char state = 0;
    return mincore(page_of(byte), 1, &state) == 0 && (state & 1);
}

// Makes the kernel read a byte. Reading it here would end the process where the file has become
// shorter; the kernel returns an error instead. The system call copies eight bytes before it
// rejects the operation ~0.
bool touch(const uint8_t *byte) {
    const auto aligned = reinterpret_cast<uintptr_t>(byte) & ~uintptr_t{7};
    return syscall(SYS_rt_sigprocmask, ~0, aligned, nullptr, 8) == -1 && errno == EINVAL;
}

// Maps a piece; returns whether the next piece is worth a try.
bool map_pages(Bytes piece) {
    // A piece that would have to be read from the disk is skipped: the loader reads it in its own
    // order. The system caches files in long stretches, so it is enough to ask for both ends.
    if (!in_memory(&piece.front()) || !in_memory(&piece.back())) return true;
    for (size_t at = 0; at < piece.size(); at += around_bytes)
        if (!touch(&piece[at])) return false;
    // Linux aligns the stretch around a byte to its size, but a piece may begin anywhere. So the
    // last byte may lie in a stretch of its own.
    return touch(&piece.back());
}

void drop(Bytes pages) {
    madvise(const_cast<uint8_t *>(pages.data()), pages.size(), MADV_DONTNEED);
}
#else
bool map_pages(Bytes) { return false; }
#endif

#if defined(__unix__) || defined(__APPLE__)
int process_id() { return static_cast<int>(getpid()); }
#else
int process_id() { return 0; }  // this system has no fork
#endif

}  // namespace

PagesAhead::PagesAhead(const std::vector<Bytes> &ranges) {
    for (Bytes range : ranges)
        for (size_t at = 0; at < range.size(); at += piece_bytes)
            pieces_.push_back(range.subspan(at, std::min(piece_bytes, range.size() - at)));
    try {
        thread_ = std::make_unique<std::thread>([this] { map_pieces(); });
        process_ = process_id();
    } catch (const std::system_error &) {
        return;  // the system gives no thread: pages are mapped when they are read
    }
}

void PagesAhead::map_pieces() {
    for (size_t i; (i = next_++) < pieces_.size();)
        if (!map_pages(pieces_[i])) next_ = pieces_.size();
}

void PagesAhead::join() {
    if (!thread_) return;
    // A forked child can neither join nor detach its parent's thread, so it leaks the handle.
    if (process_ != process_id()) thread_.release();
    else thread_->join();
    thread_.reset();
}

void PagesAhead::stop() {
    next_ = pieces_.size();
    join();
}

void PagesAhead::finish() {
    map_pieces();
    join();
}

void drop_pages(Bytes data, unsigned n_threads) {
#if defined(__linux__)
    const auto page = page_bytes(), begin = reinterpret_cast<uintptr_t>(data.data());
    const size_t before = (page - begin % page) % page;
    if (data.size() < before + page) return;
    const Bytes pages = data.subspan(before, (data.size() - before) / page * page);
    const size_t n = std::clamp<size_t>(pages.size() / least_bytes, 1, std::max(1u, n_threads));
    const size_t part = pages.size() / page / n * page;
    std::vector<std::thread> threads;
    size_t at = 0;
    try {
        for (size_t i = 1; i < n; i++, at += part)
            threads.emplace_back(drop, pages.subspan(at, part));
    } catch (const std::system_error &) {
        // The system gives no further thread: this thread drops the rest itself.
    }
    drop(pages.subspan(at));
    for (auto &thread : threads) thread.join();
#else
    (void)data, (void)n_threads;
#endif
}

void trim_heap() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace unladen
