// 0: d float16; 2: q of 2 bits, four a byte, lowest first.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let q = vec4u(half_bits(at + 2u + 2u * u)) >> vec4u(0u, 2u, 4u, 6u);
  return Codes(vec4f(q & vec4u(3u)) - 1.0, vec4f((q >> vec4u(8u)) & vec4u(3u)) - 1.0);
}
