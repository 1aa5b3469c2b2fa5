// Grids as short numbers: the values of an entry are from a small set, so an entry is eight numbers
// of two bits or four of three. A block's entries are looked up in registers. With VBMI this is
// faster than reading them one by one from memory for all grids, up to 2048 entries; without VBMI
// for grids up to 1024.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes512.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class Entry, int n>
struct Numbers {
    static constexpr int width = sizeof(Entry) == 8 ? 2 : 3, n_values = 1 << width;
    static constexpr int n_entries = n, n_each = 8 / sizeof(Entry);  // n_each: for eight weights
    alignas(64) uint16_t numbers[n] = {};

    constexpr Numbers(const Entry (&grid)[n], const int8_t (&values)[n_values]) {
        for (int i = 0; i < n; ++i) {
            for (int k = 0; k < int(sizeof(Entry)); ++k) {
                unsigned number = 0;
                while (values[number] != int8_t(grid[i] >> 8 * k)) ++number;
                numbers[i] = uint16_t(numbers[i] | number << width * k);
            }
        }
    }
};

// The group of eight weights in the 64-bit lane m of codes<j>().
constexpr int group_at(int j, int m) { return 2 * j + m / 2 * 8 + m % 2; }

}  // namespace unladen::cpu::UNLADEN_ISA

// Both headers define Grid512<Entry, n>, a Numbers with codes for values times a factor plus a
// bias; Entries, those at up to 64 indices with their codes<j>(); and sevens() and threes(), which
// unpack bits.
#if defined(__AVX512VBMI__)
#include "backends/cpu/csrc/isa/formats/grid_bytes512.h"
#else
#include "backends/cpu/csrc/isa/formats/grid_words512.h"
#endif
