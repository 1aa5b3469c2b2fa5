// Memory of a mapped file in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::cpu {

constexpr size_t huge_page_bytes = size_t{2} << 20;

// Replaces n bytes of a mapped file by a read-only copy in huge pages, at the same addresses. `at`
// and n are multiples of a huge page. Threads may read these bytes meanwhile: the system lets them
// wait for a page until the exchange is done. Returns false and does nothing if some of the bytes
// aren't in memory. Throws std::system_error if the system refuses.
bool copy_into_huge_pages(uint8_t *at, size_t n);

// Zeroed memory, in huge pages if the kernel has them.
class HugeMemory {
public:
    // Throws std::system_error if the system refuses.
    explicit HugeMemory(size_t n_bytes);
    ~HugeMemory();
    HugeMemory(const HugeMemory &) = delete;
    HugeMemory &operator=(const HugeMemory &) = delete;
    uint8_t *data() const { return data_; }
    // Whether the kernel has huge pages; if not, errno says why.
    bool is_huge() const { return is_huge_; }
    // Moves the first n bytes to the addresses from `to` on, and replaces the memory there. This
    // object is empty afterwards.
    void move(size_t n, void *to);

private:
    void *all_;
    size_t n_;
    uint8_t *data_;
    bool is_huge_ = false;
};

}  // namespace unladen::cpu
