#use grids
#grid iq1s
// 0: low 8 bits of the indices; 32: for each index a nibble of its high 3 bits and the sign of its
// shift; 48: four times four scales of 3 bits, and a quarter of d float16 in the top 4 bits.
const SPAN = 4u;
const GROUP = 2u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let a = word(at + 48u);
  let b = word(at + 52u);
  let d = unpack2x16float(((a >> 12u) & 0xfu) | ((a >> 24u) & 0xf0u)
                          | ((b >> 4u) & 0xf00u) | ((b >> 16u) & 0xf000u)).x;
  let rest = half_bits(at + 48u + 2u * (u / 8u));
  let s = d * f32(2u * ((rest >> (3u * ((u / 2u) % 4u))) & 7u) + 1u);
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let nibble = (byte(at + 32u + u / 2u) >> (4u * (u % 2u))) & 15u;
  let shift = select(0.125, -0.125, nibble >= 8u);
  let values = entry8(byte(at + u) | ((nibble & 7u) << 8u), 0u);
  return Codes(values.lo + shift, values.hi + shift);
}
