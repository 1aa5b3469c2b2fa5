// 0: d float16; 2: a bit for each weight, set means plus.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let q = byte(at + 2u + u);
  return Codes(2.0 * vec4f(four_bits(q, 0u)) - 1.0, 2.0 * vec4f(four_bits(q, 4u)) - 1.0);
}
