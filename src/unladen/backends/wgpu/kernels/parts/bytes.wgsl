// Bytes of `w`, an array of words. Blocks of 18, 34 or 210 bytes begin at any even address.

fn raw(i: u32) -> u32 {
#if QUADS
#if W1
  if (which == 1u) { return w1[i >> 2u][i & 3u]; }
#end
#if W2
  if (which == 2u) { return w2[i >> 2u][i & 3u]; }
#end
  return w[i >> 2u][i & 3u];
#else
#if W1
  if (which == 1u) { return w1[i]; }
#end
#if W2
  if (which == 2u) { return w2[i]; }
#end
  return w[i];
#end
}

// Sixteen bytes from the address `at` on.
fn words(at: u32) -> vec4u {
#if QUADS
#if W1
  if (which == 1u) { return w1[at >> 4u]; }
#end
#if W2
  if (which == 2u) { return w2[at >> 4u]; }
#end
  return w[at >> 4u];
#else
  let i = at >> 2u;
  let v = vec4u(raw(i), raw(i + 1u), raw(i + 2u), raw(i + 3u));
#if ALIGNED
  return v;
#else
  let shift = vec4u((at & 3u) * 8u);
  return (v >> shift) | ((vec4u(v.yzw, raw(i + 4u)) << vec4u(1u)) << (vec4u(31u) - shift));
#end
#end
}

// Four bytes from the address `at` on.
fn word(at: u32) -> u32 {
#if ALIGNED
  return raw(at >> 2u);
#else
  let shift = (at & 3u) * 8u;
  let i = at >> 2u;
  return (raw(i) >> shift) | ((raw(i + 1u) << 1u) << (31u - shift));
#end
}

fn byte(at: u32) -> u32 {
  return (raw(at >> 2u) >> ((at & 3u) * 8u)) & 255u;
}

// Two bytes at an even address.
fn half_bits(at: u32) -> u32 {
  return (raw(at >> 2u) >> ((at & 2u) * 8u)) & 0xffffu;
}

// The float16 at an even address.
fn half(at: u32) -> f32 {
  return unpack2x16float(half_bits(at)).x;
}

fn unsigned(bytes: u32) -> vec4f {
  return vec4f(unpack4xU8(bytes));
}

fn signed(bytes: u32) -> vec4f {
  return vec4f(unpack4xI8(bytes));
}

// Bit k, k + 1, k + 2 and k + 3 of `bits`.
fn four_bits(bits: u32, k: u32) -> vec4u {
  return (vec4u(bits) >> (vec4u(0u, 1u, 2u, 3u) + k)) & vec4u(1u);
}

// Eight weights of a block before scaling: four from position unit_at(u) on, and the four that are
// SPAN further.
struct Codes {
  lo: vec4f,
  hi: vec4f,
}
