#use packed
// 0: d float16; 2: q int8.
const SPAN = 16u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 4u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at);
  return vec4f(d, 0.0, d, 0.0);
}

fn packed(at: u32, u: u32) -> vec2u {
  return vec2u(word(at + 2u + 4u * u), word(at + 18u + 4u * u));
}

fn packed_group(at: u32, first: u32) -> array<vec2u, GROUP> {
  let lo = words(at + 2u + 4u * first);
  let hi = words(at + 18u + 4u * first);
  return array<vec2u, GROUP>(vec2u(lo.x, hi.x), vec2u(lo.y, hi.y), vec2u(lo.z, hi.z),
                             vec2u(lo.w, hi.w));
}
