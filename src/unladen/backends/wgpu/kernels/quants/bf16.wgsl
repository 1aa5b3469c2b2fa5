// Numbers without blocks; 32 of them are taken at a time.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f { return vec4f(1.0, 0.0, 1.0, 0.0); }

fn two(pair: u32) -> vec2f {
  return bitcast<vec2f>(vec2u(pair << 16u, pair & 0xffff0000u));
}

fn codes(at: u32, u: u32) -> Codes {
  let i = at + 16u * u;
  return Codes(vec4f(two(word(i)), two(word(i + 4u))),
               vec4f(two(word(i + 8u)), two(word(i + 12u))));
}
