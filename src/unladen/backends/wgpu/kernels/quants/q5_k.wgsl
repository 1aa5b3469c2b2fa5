#use packed
// 0: d, dmin float16; 4: scales and minimums; 16: bit k of byte j is the top bit of q[j + 32 k];
// 48: 64 weights in 32 bytes, byte j holds q[j] low, q[j + 32] high.
const SPAN = 32u;
const GROUP = 4u;
const SHIFTED = true;

fn unit_at(u: u32) -> u32 { return 64u * (u / 8u) + 4u * (u % 8u); }

// Scale and minimum of run s, 6 bits each, from the twelve bytes at 4.
fn run_scale(at: u32, s: u32) -> vec2f {
  let k = (s % 4u) * 8u;
  let first = word(at + 4u) >> k;
  let second = word(at + 8u) >> k;
  if (s < 4u) { return vec2f(f32(first & 63u), f32(second & 63u)); }
  let rest = word(at + 12u) >> k;
  return vec2f(f32((rest & 15u) | ((first >> 2u) & 48u)),
               f32(((rest >> 4u) & 15u) | ((second >> 2u) & 48u)));
}

fn scales(at: u32, u: u32) -> vec4f {
  let d = unpack2x16float(word(at));
  let lo = run_scale(at, 2u * (u / 8u));
  let hi = run_scale(at, 2u * (u / 8u) + 1u);
  return vec4f(d.x * lo.x, -(d.y * lo.y), d.x * hi.x, -(d.y * hi.y));
}

fn packed(at: u32, u: u32) -> vec2u {
  let top = word(at + 16u + 4u * (u % 8u)) >> (2u * (u / 8u));
  let q = word(at + 48u + 4u * u);
  return vec2u((q & 0x0f0f0f0fu) | ((top & 0x01010101u) << 4u),
               ((q >> 4u) & 0x0f0f0f0fu) | (((top >> 1u) & 0x01010101u) << 4u));
}
