// For formats without blocks. RAGGED: a row's last 32 numbers may be fewer, and what follows them
// may be another row or nothing.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) { return F4(1.0f, 0.0f, 1.0f, 0.0f); }

#if RAGGED
FN float number_within(Bytes b, u32 at, u32 i, u32 n) {
  return i < n ? number_at(b, at + i * NUMBER_BYTES) : 0.0f;
}

// Unit u of the block at byte `at`: its first n numbers, then zeros.
FN Codes codes_within(Bytes b, u32 at, u32 u, u32 n) {
  const u32 from = at + 8u * u * NUMBER_BYTES;
  Codes c;
  c.lo = F4(number_within(b, from, 0u, n), number_within(b, from, 1u, n),
            number_within(b, from, 2u, n), number_within(b, from, 3u, n));
  c.hi = F4(number_within(b, from, 4u, n), number_within(b, from, 5u, n),
            number_within(b, from, 6u, n), number_within(b, from, 7u, n));
  return c;
}
#end
