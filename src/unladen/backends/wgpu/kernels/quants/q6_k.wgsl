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

fn packed_group(at: u32, first: u32) -> array<vec2u, GROUP> {
  let low = words(at + 64u * (first / 16u) + 4u * (first % 16u));
  let top = words(at + 128u + 32u * (first / 16u) + 4u * (first % 8u))
         >> vec4u(2u * ((first / 8u) % 2u));
  let lo = minus_each4((low & vec4u(0x0f0f0f0fu)) | ((top & vec4u(0x03030303u)) << vec4u(4u)), 0x20202020u);
  let hi = minus_each4(((low >> vec4u(4u)) & vec4u(0x0f0f0f0fu)) | (top & vec4u(0x30303030u)), 0x20202020u);
  return array<vec2u, GROUP>(vec2u(lo.x, hi.x), vec2u(lo.y, hi.y), vec2u(lo.z, hi.z),
                             vec2u(lo.w, hi.w));
}
