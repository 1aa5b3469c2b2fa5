// 0: exponent with bias 127; 1: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 4u * u; }

// Twice the E2M1 numbers of four nibbles, one in the low half of each byte.
fn levels(codes: u32) -> vec4f {
  let c = unpack4xU8(codes);
  let size = vec4f((vec4u(0xc8643210u) >> (4u * (c & vec4u(7u)))) & vec4u(15u));
  return select(size, -size, c > vec4u(7u));
}

// 2^(e - 128), half of what the exponent means, since a level is twice its number.
fn scales(at: u32, u: u32) -> vec4f {
  let e = byte(at);
  let d = bitcast<f32>(select((e - 1u) << 23u, 0x200000u << e, e < 2u));
  return vec4f(d, 0.0, d, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let q = word(at + 1u + 4u * u);
  return Codes(levels(q & 0x0f0f0f0fu), levels((q >> 4u) & 0x0f0f0f0fu));
}
