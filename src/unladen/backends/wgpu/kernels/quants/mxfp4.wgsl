#use packed packed_each levels
// 0: exponent with bias 127; 1: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

// Twice the E2M1 numbers.
const LEVELS = vec4u(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);

fn unit_at(u: u32) -> u32 { return 4u * u; }

// 2^(e - 128), half of what the exponent means, since a level is twice its number.
fn scales(at: u32, u: u32) -> vec4f {
  let e = byte(at);
  let d = bitcast<f32>(select((e - 1u) << 23u, 0x200000u << e, e < 2u));
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 1u + 4u * u);
  return vec2u(levels(q & 0x0f0f0f0fu), levels((q >> 4u) & 0x0f0f0f0fu));
}
