#use packed
// 0: d, dmin float16; 4: scales and minimums; 16: 64 weights in 32 bytes, byte j holds q[j] low,
// q[j + 32] high.
const SPAN = 32u;
const GROUP = 4u;
const SHIFTED = true;

fn unit_at(u: u32) -> u32 { return 64u * (u / 8u) + 4u * (u % 8u); }

// Scale and minimum of run s, 6 bits each, from a block's first sixteen bytes.
fn run_scale(head: vec4u, s: u32) -> vec2f {
  let h = head >> vec4u((s % 4u) * 8u);
  let near = h.yz & vec2u(63u);
  let far = (vec2u(h.w, h.w >> 4u) & vec2u(15u)) | ((h.yz >> vec2u(2u)) & vec2u(48u));
  return vec2f(select(far, near, s < 4u));
}

fn scales(at: u32, u: u32) -> vec4f {
  let head = words(at);
  let d = unpack2x16float(head.x);
  let lo = run_scale(head, 2u * (u / 8u));
  let hi = run_scale(head, 2u * (u / 8u) + 1u);
  return vec4f(d.x * lo.x, -(d.y * lo.y), d.x * hi.x, -(d.y * hi.y));
}

fn packed(at: u32, u: u32) -> vec2u {
  let q = word(at + 16u + 4u * u);
  return vec2u(q, q >> 4u) & vec2u(0x0f0f0f0fu);
}

fn packed_group(at: u32, first: u32) -> array<vec2u, GROUP> {
  let q = words(at + 16u + 4u * first);
  let lo = q & vec4u(0x0f0f0f0fu);
  let hi = (q >> vec4u(4u)) & vec4u(0x0f0f0f0fu);
  return array<vec2u, GROUP>(vec2u(lo.x, hi.x), vec2u(lo.y, hi.y), vec2u(lo.z, hi.z),
                             vec2u(lo.w, hi.w));
}
