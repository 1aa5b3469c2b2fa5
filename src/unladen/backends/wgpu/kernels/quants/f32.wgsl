// Numbers without blocks; 32 of them are taken at a time.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f { return vec4f(1.0, 0.0, 1.0, 0.0); }

fn codes(at: u32, u: u32) -> Codes {
  let i = (at >> 2u) + 8u * u;
  return Codes(bitcast<vec4f>(vec4u(raw(i), raw(i + 1u), raw(i + 2u), raw(i + 3u))),
               bitcast<vec4f>(vec4u(raw(i + 4u), raw(i + 5u), raw(i + 6u), raw(i + 7u))));
}
