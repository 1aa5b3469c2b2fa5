#use packed packed_each
// 0: d float16; 2: bit i is bit 4 of q[i]; 6: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let high = word(at + 2u);
  let q = word(at + 6u + 4u * u);
  let lo = (q & 0x0f0f0f0fu) | (spread(high, 4u * u) << 4u);
  let hi = ((q >> 4u) & 0x0f0f0f0fu) | (spread(high, 4u * u + 16u) << 4u);
  return vec2u(minus_each(lo, 0x10101010u), minus_each(hi, 0x10101010u));
}
