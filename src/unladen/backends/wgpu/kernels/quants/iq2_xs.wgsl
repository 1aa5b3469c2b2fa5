#use grids
#grid iq2xs
// 0: d float16; 2: for each eight weights the index in 9 bits and the sign code in 7; 66: scale of
// 4 bits, low nibble first.
const SPAN = 4u;
const GROUP = 2u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let nibble = (byte(at + 66u + u / 4u) >> (4u * ((u / 2u) % 2u))) & 15u;
  let s = half(at) * (f32(nibble) + 0.5) * 0.25;
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let code = half_bits(at + 2u + 2u * u);
  return entry8(code & 511u, even_signs(code >> 9u));
}
