// 0: d float16; 2: bit i is bit 4 of q[i]; 6: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let high = word(at + 2u);
  let q = word(at + 6u + 4u * u);
  return Codes(unsigned(q & 0x0f0f0f0fu) + 16.0 * vec4f(four_bits(high, 4u * u)) - 16.0,
               unsigned((q >> 4u) & 0x0f0f0f0fu) + 16.0 * vec4f(four_bits(high, 4u * u + 16u)) - 16.0);
}
