// 0: scale low nibble, min high, of 16 runs; 16: 128 weights in 32 bytes, byte j holds q[j],
// q[j + 32], ...; 80: d, dmin float16.
#define SPAN 32u
#define GROUP 4u
#define SHIFTED 1

#use packed packed_each

FN u32 unit_at(u32 u) { return 64u * (u / 8u) + 4u * (u % 8u); }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const u32 run = 4u * (u / 8u) + (u % 8u) / 4u;
  const f2 d = f2_halves(word_at(b, at + 80u));
  const u32 lo = byte_at(b, at + run);
  const u32 hi = byte_at(b, at + run + 2u);
  return F4(d.x * (float)(lo & 15u), -(d.y * (float)(lo >> 4)), d.x * (float)(hi & 15u),
            -(d.y * (float)(hi >> 4)));
}

FN u2 packed(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = word_at(b, at + 16u + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return U2(q & 0x03030303u, (q >> 2) & 0x03030303u);
}
