#include "backends/cpu/csrc/huge_pages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace unladen::cpu {

#if defined(__linux__)
namespace {

void check(bool done, const char *what) {
    if (!done) throw std::system_error(errno, std::generic_category(), what);
}

bool in_memory(uint8_t *at, size_t n) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages(n / page);
    check(mincore(at, n, pages.data()) == 0, "mincore");
    return std::all_of(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
}

// A private mapping until it is moved away.
class Fresh {
public:
    explicit Fresh(size_t n) : n_(n + huge_page_bytes) {
        all_ = mmap(nullptr, n_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(all_ != MAP_FAILED, "mmap");
    }
    // Where a part of it that moved elsewhere was, this leaves what may be there by then alone.
    ~Fresh() {
        if (n_) munmap(all_, n_);
    }
    Fresh(const Fresh &) = delete;
    Fresh &operator=(const Fresh &) = delete;

    uint8_t *aligned() const {
        const auto address = reinterpret_cast<uintptr_t>(all_) + huge_page_bytes - 1;
        return reinterpret_cast<uint8_t *>(address / huge_page_bytes * huge_page_bytes);
    }
    void move(size_t n, void *to) {
        uint8_t *first = static_cast<uint8_t *>(all_), *from = aligned(), *last = first + n_;
        check(mremap(from, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
        n_ = 0;
        if (from > first) munmap(first, from - first);
        if (last > from + n) munmap(from + n, last - (from + n));
    }

private:
    void *all_;
    size_t n_;
};

}  // namespace

bool copy_into_huge_pages(uint8_t *at, size_t n) {
    if (!in_memory(at, n)) return false;
    Fresh fresh(n);
    uint8_t *copy = fresh.aligned();
    check(madvise(copy, n, MADV_HUGEPAGE) == 0, "madvise");
    std::memcpy(copy, at, n);
    check(mprotect(copy, n, PROT_READ) == 0, "mprotect");
    fresh.move(n, at);
    return true;
}
#else
bool copy_into_huge_pages(uint8_t *, size_t) {
    throw std::system_error(ENOSYS, std::generic_category(), "huge pages");
}
#endif

}  // namespace unladen::cpu
