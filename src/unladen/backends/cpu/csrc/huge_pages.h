// Memory of a mapped file in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::cpu {

constexpr size_t huge_page_bytes = size_t{2} << 20;

// Puts a copy in huge pages in the place of n bytes of a mapped file, both in whole huge pages; it
// can't be written to. Whoever reads there meanwhile finds the same bytes: a page that is missing
// for a moment is looked for when the exchange is over. False: not all of them are in memory, and
// nothing was done. Throws std::system_error where the system refuses.
bool copy_into_huge_pages(uint8_t *at, size_t n);

// Memory in huge pages where the kernel has them, all zero.
class HugeMemory {
public:
    // Throws std::system_error where the system refuses.
    explicit HugeMemory(size_t n_bytes);
    ~HugeMemory();
    HugeMemory(const HugeMemory &) = delete;
    HugeMemory &operator=(const HugeMemory &) = delete;
    uint8_t *data() const { return data_; }
    // Whether the kernel has huge pages; if not, errno says why.
    bool is_huge() const { return is_huge_; }
    // Moves its first n bytes to `to`, in place of what is there; nothing is left here.
    void move(size_t n, void *to);

private:
    void *all_;
    size_t n_;
    uint8_t *data_;
    bool is_huge_ = false;
};

}  // namespace unladen::cpu
