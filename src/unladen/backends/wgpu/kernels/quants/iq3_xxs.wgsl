#use grids
#grid iq3xxs
// 0: d float16; 2: indices of four weights each; 66: for each run of 32 four sign codes of 7 bits
// and the scale in the top 4 bits.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let s = half(at) * (f32(word(at + 66u + 4u * (u / 4u)) >> 28u) + 0.5) * 0.5;
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let code = (word(at + 66u + 4u * (u / 4u)) >> (7u * (u % 4u))) & 127u;
  let pair = half_bits(at + 2u + 2u * u);
  return entries4(pair & 255u, pair >> 8u, even_signs(code));
}
