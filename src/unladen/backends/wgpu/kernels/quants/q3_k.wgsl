#use packed packed_each
// 0: bit k of byte j is the top bit of q[j + 32 k]; 32: 128 weights in 32 bytes, byte j holds q[j],
// q[j + 32], ...; 96: scale[j] low, scale[j + 8] high; 104: high 2 bits of scale[j], scale[j + 4],
// ...; 108: d float16.
const SPAN = 32u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 64u * (u / 8u) + 4u * (u % 8u); }

fn run_scale(at: u32, run: u32) -> f32 {
  let low = (byte(at + 96u + run % 8u) >> (4u * (run / 8u))) & 15u;
  let high = (byte(at + 104u + run % 4u) >> (2u * (run / 4u))) & 3u;
  return f32(low | (high << 4u)) - 32.0;
}

fn scales(at: u32, u: u32) -> vec4f {
  let run = 4u * (u / 8u) + (u % 8u) / 4u;
  let d = half(at + 108u);
  return vec4f(d * run_scale(at, run), 0.0, d * run_scale(at, run + 2u), 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let top = word(at + 4u * (u % 8u)) >> (2u * (u / 8u));
  let q = word(at + 32u + 32u * (u / 16u) + 4u * (u % 8u)) >> (4u * ((u / 8u) % 2u));
  return vec2u(
    minus_each((q & 0x03030303u) | ((top & 0x01010101u) << 2u), 0x04040404u),
    minus_each(((q >> 2u) & 0x03030303u) | (((top >> 1u) & 0x01010101u) << 2u), 0x04040404u));
}
