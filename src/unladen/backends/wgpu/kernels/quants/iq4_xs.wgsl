// 0: d float16; 2: high 2 bits of each scale; 4: low 4 bits of scale, low nibble first; 8: 32
// weights in 16 bytes, byte j holds q[j] low, q[j + 16] high, of 16 uneven levels.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 32u * (u / 4u) + 4u * (u % 4u); }

// The levels of 4-bit codes, a code in each byte.
fn levels(codes: u32) -> vec4f {
  const packed = vec4u(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
  let c = unpack4xU8(codes);
  return vec4f(extractBits(bitcast<vec4i>(vec4u(
    packed[c.x >> 2u] >> (8u * (c.x & 3u)), packed[c.y >> 2u] >> (8u * (c.y & 3u)),
    packed[c.z >> 2u] >> (8u * (c.z & 3u)), packed[c.w >> 2u] >> (8u * (c.w & 3u)))), 0u, 8u));
}

fn scales(at: u32, u: u32) -> vec4f {
  let run = u / 4u;
  let low = (word(at + 4u) >> (4u * run)) & 15u;
  let high = (half_bits(at + 2u) >> (2u * run)) & 3u;
  let s = half(at) * (f32(low | (high << 4u)) - 32.0);
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let q = word(at + 8u + 4u * u);
  return Codes(levels(q & 0x0f0f0f0fu), levels((q >> 4u) & 0x0f0f0f0fu));
}
