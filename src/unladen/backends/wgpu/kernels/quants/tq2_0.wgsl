#use packed packed_each
// 0: 128 weights in 32 bytes, byte j holds q[j], q[j + 32], ...; 64: d float16.
const SPAN = 32u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 64u * (u / 8u) + 4u * (u % 8u); }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at + 64u);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return vec2u(minus_each(q & 0x03030303u, 0x01010101u),
               minus_each((q >> 2u) & 0x03030303u, 0x01010101u));
}
