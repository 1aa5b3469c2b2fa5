// For formats whose weights are int8 codes times a scale: `packed` returns a unit's codes as two
// words of four.

fn codes(at: u32, u: u32) -> Codes {
  let p = packed(at, u);
  return Codes(signed(p.x), signed(p.y));
}

// Each byte of a minus that of b; all are below 128.
fn minus_each(a: u32, b: u32) -> u32 {
  return ((a | 0x80808080u) - b) ^ 0x80808080u;
}

fn minus_each4(a: vec4u, b: u32) -> vec4u {
  return ((a | vec4u(0x80808080u)) - vec4u(b)) ^ vec4u(0x80808080u);
}

// Bits k .. k + 3 of `bits`, one in each byte.
fn spread(bits: u32, k: u32) -> u32 {
  return (((bits >> k) & 15u) * 0x00204081u) & 0x01010101u;
}
