// Digits of base 3, five a byte: 0: byte j holds q[j], q[j + 32], ... q[j + 128]; 32: q[160 + j],
// q[176 + j], ... q[224 + j]; 48: q[240 + j], ... q[252 + j]; 52: d float16.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = half(at + 52u);
  return vec4f(d, 0.0, d, 0.0);
}

// Digit n of four bytes: each is a fraction of base 3 times 256, rounded up.
fn digits(bytes: u32, n: u32) -> vec4f {
  let power = select((0x1b090301u >> (8u * n)) & 255u, 81u, n == 4u);
  return vec4f((((unpack4xU8(bytes) * power) & vec4u(255u)) * 3u) >> vec4u(8u)) - 1.0;
}

fn four(at: u32, i: u32) -> vec4f {
  if (i < 160u) { return digits(word(at + i % 32u), i / 32u); }
  if (i < 240u) { return digits(word(at + 32u + i % 16u), (i - 160u) / 16u); }
  return digits(word(at + 48u), (i - 240u) / 4u);
}

fn codes(at: u32, u: u32) -> Codes {
  return Codes(four(at, 8u * u), four(at, 8u * u + 4u));
}
