// Numbers without blocks; 32 of them are taken at a time.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f { return vec4f(1.0, 0.0, 1.0, 0.0); }

fn codes(at: u32, u: u32) -> Codes {
  let i = at + 16u * u;
  return Codes(vec4f(unpack2x16float(word(i)), unpack2x16float(word(i + 4u))),
               vec4f(unpack2x16float(word(i + 8u)), unpack2x16float(word(i + 12u))));
}
