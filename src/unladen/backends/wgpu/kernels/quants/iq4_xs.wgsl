#use packed packed_each levels
// 0: d float16; 2: high 2 bits of each scale; 4: low 4 bits of scale, low nibble first; 8: 32
// weights in 16 bytes, byte j holds q[j] low, q[j + 16] high, of 16 uneven levels.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

const LEVELS = vec4u(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);

fn unit_at(u: u32) -> u32 { return 32u * (u / 4u) + 4u * (u % 4u); }

fn scales(at: u32, u: u32) -> vec4f {
  let run = u / 4u;
  let low = (word(at + 4u) >> (4u * run)) & 15u;
  let high = (half_bits(at + 2u) >> (2u * run)) & 3u;
  let s = half(at) * (f32(low | (high << 4u)) - 32.0);
  return vec4f(s, 0.0, s, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 8u + 4u * u);
  return vec2u(levels(q & 0x0f0f0f0fu), levels((q >> 4u) & 0x0f0f0f0fu));
}
