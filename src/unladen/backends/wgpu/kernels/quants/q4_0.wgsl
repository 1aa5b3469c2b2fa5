#use packed
// 0: d float16; 2: byte j holds q[j] low, q[j + 16] high.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 2u + 4u * u);
  return vec2u(minus_each(q & 0x0f0f0f0fu, 0x08080808u), minus_each((q >> 4u) & 0x0f0f0f0fu, 0x08080808u));
}

fn packed_group(at: u32, first: u32) -> array<vec2u, GROUP> {
  let q = words(at + 2u + 4u * first);
  let lo = minus_each4(q & vec4u(0x0f0f0f0fu), 0x08080808u);
  let hi = minus_each4((q >> vec4u(4u)) & vec4u(0x0f0f0f0fu), 0x08080808u);
  return array<vec2u, GROUP>(vec2u(lo.x, hi.x), vec2u(lo.y, hi.y), vec2u(lo.z, hi.z),
                             vec2u(lo.w, hi.w));
}
