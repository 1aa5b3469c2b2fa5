#use packed packed_each levels
// 0: d float16; 2: byte j holds q[j] low, q[j + 16] high, of 16 uneven levels.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

const LEVELS = vec4u(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 2u + 4u * u);
  return vec2u(levels(q & 0x0f0f0f0fu), levels((q >> 4u) & 0x0f0f0f0fu));
}
