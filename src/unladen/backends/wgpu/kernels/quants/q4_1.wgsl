#use packed packed_each
// 0: d, m float16; 4: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = true;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = unpack2x16float(word(at));
  return d.xyxy;
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 4u + 4u * u);
  return vec2u(q, q >> 4u) & vec2u(0x0f0f0f0fu);
}
