#use packed packed_each
// 0: scale low nibble, min high, of 16 runs; 16: 128 weights in 32 bytes, byte j holds q[j],
// q[j + 32], ...; 80: d, dmin float16.
const SPAN = 32u;
const GROUP = 4u;
const SHIFTED = true;

fn unit_at(u: u32) -> u32 { return 64u * (u / 8u) + 4u * (u % 8u); }

fn scales(at: u32, u: u32) -> vec4f {
  let run = 4u * (u / 8u) + (u % 8u) / 4u;
  let d = unpack2x16float(word(at + 80u));
  let lo = byte(at + run);
  let hi = byte(at + run + 2u);
  return vec4f(d.x * f32(lo & 15u), -(d.y * f32(lo >> 4u)),
               d.x * f32(hi & 15u), -(d.y * f32(hi >> 4u)));
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 16u + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return vec2u(q, q >> 2u) & vec2u(0x03030303u);
}
