// Codebooks of the IQ formats: entries of 4 or 8 signed bytes.
@group(1) @binding(3) var<storage, read> grid: array<u32>;

// The signs that bits k .. k + 3 of `bits` stand for.
fn signs(bits: u32, k: u32) -> vec4f {
  return vec4f(1.0) - 2.0 * vec4f(four_bits(bits, k));
}

// Seven sign bits, and an eighth that makes the number of minus signs even.
fn even_signs(code: u32) -> u32 {
  return code | ((countOneBits(code) & 1u) << 7u);
}

// Entry i of eight values, with the signs that the eight bits of `bits` stand for.
fn entry8(i: u32, bits: u32) -> Codes {
  return Codes(signed(grid[2u * i]) * signs(bits, 0u), signed(grid[2u * i + 1u]) * signs(bits, 4u));
}

// Entries i and j of four values.
fn entries4(i: u32, j: u32, bits: u32) -> Codes {
  return Codes(signed(grid[i]) * signs(bits, 0u), signed(grid[j]) * signs(bits, 4u));
}
