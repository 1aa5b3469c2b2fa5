#use packed
// 0: 128 weights in 64 bytes, byte j holds the low nibbles of q[j], q[j + 64]; 128: 128 weights in
// 32 bytes, byte j holds the high 2 bits of q[j], q[j + 32], ...; 192: scale int8; 208: d float16.
const SPAN = 64u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 128u * (u / 16u) + 4u * (u % 16u); }

fn run_scale(at: u32, run: u32) -> f32 {
  return f32(extractBits(bitcast<i32>(byte(at + 192u + run)), 0u, 8u));
}

fn scales(at: u32, u: u32) -> vec4f {
  let run = 8u * (u / 16u) + (u % 16u) / 4u;
  let d = half(at + 208u);
  return vec4f(d * run_scale(at, run), 0.0, d * run_scale(at, run + 4u), 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let low = word(at + 64u * (u / 16u) + 4u * (u % 16u));
  let top = word(at + 128u + 32u * (u / 16u) + 4u * (u % 8u)) >> (2u * ((u / 8u) % 2u));
  return vec2u(minus_each((low & 0x0f0f0f0fu) | ((top & 0x03030303u) << 4u), 0x20202020u),
               minus_each(((low >> 4u) & 0x0f0f0f0fu) | (top & 0x30303030u), 0x20202020u));
}
