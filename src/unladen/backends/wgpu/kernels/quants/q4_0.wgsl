#use packed
// 0: d float16; 2: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 2u + 4u * u);
  return vec2u(minus_each(q & 0x0f0f0f0fu, 0x08080808u), minus_each((q >> 4u) & 0x0f0f0f0fu, 0x08080808u));
}
