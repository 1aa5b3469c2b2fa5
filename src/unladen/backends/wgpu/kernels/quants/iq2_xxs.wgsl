#use grids
#grid iq2xxs
// 0: d float16; 2: 8 bytes for each run of 32: four indices, then four sign codes of 7 bits and the
// scale in the top 4 bits.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let s = half(at) * (f32(word(at + 6u + 8u * (u / 4u)) >> 28u) + 0.5) * 0.25;
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let run = at + 2u + 8u * (u / 4u);
  let code = (word(run + 4u) >> (7u * (u % 4u))) & 127u;
  return entry8(byte(run + u % 4u), even_signs(code));
}
