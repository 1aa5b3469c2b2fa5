// Float16, two in a word, for weights as fragments of four warps.

// One of the word's numbers, the low one or the high one, in both places.
FN u32 low_twice(u32 word) { return permute_bytes(word, 0u, 0x1010u); }
FN u32 high_twice(u32 word) { return permute_bytes(word, 0u, 0x3232u); }

// The two low or the two high bytes, less `less`, as numbers: 1024 and more has a digit for one.
FN u32 whole_halves(u32 bytes, u32 less, bool high) {
  const u32 more = permute_bytes(bytes, 0x64646464u, high ? 0x4342u : 0x4140u);
  return add_halves(more, (0xe400u + less) * 0x00010001u);
}
