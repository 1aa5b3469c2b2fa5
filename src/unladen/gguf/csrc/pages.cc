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

// What a thread takes at once.
constexpr size_t piece_bytes = 1 << 20;
// What the system maps around a byte that is read. MADV_POPULATE_READ would take two thirds of the
// time, but it locks the process's memory: whoever maps or unmaps anything meanwhile, as every
// import does, then waits for milliseconds.
constexpr size_t around_bytes = 64 << 10;
// For a thread that drops pages: starting it takes as long as dropping some hundred of them.
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

// Makes the system read a byte: unlike reading it here, that does no harm where the file has become
// shorter. The call copies eight bytes before it finds that ~0 is nothing that it can do with them.
bool touch(const uint8_t *byte) {
    const auto aligned = reinterpret_cast<uintptr_t>(byte) & ~uintptr_t{7};
    return syscall(SYS_rt_sigprocmask, ~0, aligned, nullptr, 8) == -1 && errno == EINVAL;
}

// Whether the next piece is worth a try.
bool map_pages(Bytes piece) {
    // What would have to be read from a disk is left to those who want it, in their order. Files
    // come into memory by long stretches, so that asking for their ends will do.
    if (!in_memory(&piece.front()) || !in_memory(&piece.back())) return true;
    for (size_t at = 0; at < piece.size(); at += around_bytes)
        if (!touch(&piece[at])) return false;
    // What is mapped around a byte begins at a multiple of that size, as pieces needn't.
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
int process_id() { return 0; }  // there is no fork
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
        return;  // there is no thread to be had: then nothing happens ahead
    }
}

void PagesAhead::map_pieces() {
    for (size_t i; (i = next_++) < pieces_.size();)
        if (!map_pages(pieces_[i])) next_ = pieces_.size();
}

void PagesAhead::join() {
    if (!thread_) return;
    // Nobody can join or detach a thread of the parent's: its handle is left as garbage.
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
        // There is no further thread to be had: it takes longer.
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
