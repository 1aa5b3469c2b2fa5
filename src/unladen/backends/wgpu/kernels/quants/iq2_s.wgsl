#use grids
#grid iq2s
// 0: d float16; 2: low 8 bits of the indices; 34: a sign bit for each weight; 66: high 2 bits of
// the indices; 74: scale of 4 bits, low nibble first.
const SPAN = 4u;
const GROUP = 2u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let nibble = (byte(at + 74u + u / 4u) >> (4u * ((u / 2u) % 2u))) & 15u;
  let s = half(at) * (f32(nibble) + 0.5) * 0.25;
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let high = (byte(at + 66u + u / 4u) >> (2u * (u % 4u))) & 3u;
  return entry8(byte(at + 2u + u) | (high << 8u), byte(at + 34u + u));
}
