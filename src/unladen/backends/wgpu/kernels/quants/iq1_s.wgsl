#use grids
#grid iq1s
// 0: d float16; 2: low 8 bits of the indices; 34: for each run of 32 the high 3 bits of its four
// indices, the scale in bits 12 to 14, and the sign of the shift in bit 15.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let rest = half_bits(at + 34u + 2u * (u / 4u));
  let s = half(at) * f32(2u * ((rest >> 12u) & 7u) + 1u);
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let rest = half_bits(at + 34u + 2u * (u / 4u));
  let index = byte(at + 2u + u) | (((rest >> (3u * (u % 4u))) & 7u) << 8u);
  let shift = select(0.125, -0.125, rest >= 0x8000u);
  let values = entry8(index, 0u);
  return Codes(values.lo + shift, values.hi + shift);
}
