#use packed packed_each
// 0: d, m float16; 4: bit i is bit 4 of q[i]; 8: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = true;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = unpack2x16float(word(at));
  return d.xyxy;
}

fn packed(at: u32, u: u32) -> vec2u {
  let high = word(at + 4u);
  let q = word(at + 8u + 4u * u);
  return vec2u((q & 0x0f0f0f0fu) | (spread(high, 4u * u) << 4u),
               ((q >> 4u) & 0x0f0f0f0fu) | (spread(high, 4u * u + 16u) << 4u));
}
