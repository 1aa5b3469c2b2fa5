#use packed
// 0: d float16; 2: q int8.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  return vec2u(word(at + 2u + 8u * u), word(at + 6u + 8u * u));
}
