#include "backends/cpu/csrc/huge_pages.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace unladen::cpu {

namespace {

void check(bool done, const char *what) {
    if (!done) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

#if defined(__linux__)
namespace {

bool in_memory(uint8_t *at, size_t n) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages(n / page);
    check(mincore(at, n, pages.data()) == 0, "mincore");
    return std::all_of(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
}

uint8_t *aligned(void *p) {
    const auto address = reinterpret_cast<uintptr_t>(p) + huge_page_bytes - 1;
    return reinterpret_cast<uint8_t *>(address / huge_page_bytes * huge_page_bytes);
}

}  // namespace

HugeMemory::HugeMemory(size_t n_bytes) : n_(n_bytes + huge_page_bytes) {
    all_ = mmap(nullptr, n_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(all_ != MAP_FAILED, "mmap");
    data_ = aligned(all_);
    is_huge_ = madvise(data_, n_bytes, MADV_HUGEPAGE) == 0;
}

HugeMemory::~HugeMemory() {
    if (n_) munmap(all_, n_);
}

// Afterwards unmaps only the part that wasn't moved: another thread may have mapped the old
// addresses of the moved part.
void HugeMemory::move(size_t n, void *to) {
    uint8_t *first = static_cast<uint8_t *>(all_), *last = first + n_;
    check(mremap(data_, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
    n_ = 0;
    if (data_ > first) munmap(first, data_ - first);
    if (last > data_ + n) munmap(data_ + n, last - (data_ + n));
}

bool copy_into_huge_pages(uint8_t *at, size_t n) {
    if (!in_memory(at, n)) return false;
    HugeMemory copy(n);
    check(copy.is_huge(), "madvise");
    std::memcpy(copy.data(), at, n);
    check(mprotect(copy.data(), n, PROT_READ) == 0, "mprotect");
    copy.move(n, at);
    return true;
}
#else
bool copy_into_huge_pages(uint8_t *, size_t) {
    throw std::system_error(ENOSYS, std::generic_category(), "huge pages");
}

HugeMemory::HugeMemory(size_t n_bytes) : n_(n_bytes + 64) {
    all_ = std::calloc(n_, 1);
    check(all_, "calloc");
    data_ = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(all_) + 63) / 64 * 64);
}
HugeMemory::~HugeMemory() { std::free(all_); }
#endif

}  // namespace unladen::cpu
