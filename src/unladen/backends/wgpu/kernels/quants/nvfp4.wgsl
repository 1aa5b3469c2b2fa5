// 0: four scales of 8 bits (E4M3, no sign); 4: 16 weights in 8 bytes, byte j holds q[j] low,
// q[j + 8] high.
const SPAN = 8u;
const GROUP = 2u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 16u * (u / 2u) + 4u * (u % 2u); }

// Twice the E2M1 numbers of four nibbles, one in the low half of each byte.
fn levels(codes: u32) -> vec4f {
  let c = unpack4xU8(codes);
  let size = vec4f((vec4u(0xc8643210u) >> (4u * (c & vec4u(7u)))) & vec4u(15u));
  return select(size, -size, c > vec4u(7u));
}

// Half of what the scale's byte means, since a level is twice its number; 0x7f is E4M3's NaN and
// counts as zero.
fn scales(at: u32, u: u32) -> vec4f {
  let code = byte(at + u / 2u);
  let exponent = (code >> 3u) & 15u;
  let mantissa = (code & 7u) + select(0u, 8u, exponent > 0u);
  let power = bitcast<f32>((max(exponent, 1u) + 116u) << 23u);
  let s = select(f32(mantissa) * power, 0.0, code == 0x7fu);
  return vec4f(s, 0.0, s, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let q = word(at + 4u + 4u * u);
  return Codes(levels(q & 0x0f0f0f0fu), levels((q >> 4u) & 0x0f0f0f0fu));
}
