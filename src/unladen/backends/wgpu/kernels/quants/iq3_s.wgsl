#use grids
#grid iq3s
// 0: d float16; 2: low 8 bits of the indices of four weights each; 66: bit 8 of the indices; 74: a
// sign bit for each weight; 106: scale of 4 bits, low nibble first.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let nibble = (byte(at + 106u + u / 8u) >> (4u * ((u / 4u) % 2u))) & 15u;
  let s = half(at) * f32(2u * nibble + 1u);
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let high = byte(at + 66u + u / 4u) >> (2u * (u % 4u));
  let pair = half_bits(at + 2u + 2u * u);
  return entries4((pair & 255u) | ((high & 1u) << 8u), (pair >> 8u) | ((high & 2u) << 7u),
                  byte(at + 74u + u));
}
