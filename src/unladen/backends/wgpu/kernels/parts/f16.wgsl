// float32 to float16, nearest with ties to even: pack2x16float leaves the rounding to the device.

fn f16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) { return sign | 0x7e00u; }
  if (a >= 0x477ff000u) { return sign | 0x7c00u; }
  if (a >= 0x38800000u) {
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u);
  }
  if (a < 0x33000000u) { return sign; }
  // A subnormal half counts units of 2^-24.
  let shift = 126u - (a >> 23u);
  let m = (a & 0x7fffffu) | 0x800000u;
  let kept = m >> shift;
  let rest = m & ((1u << shift) - 1u);
  let middle = 1u << (shift - 1u);
  let up = rest > middle || (rest == middle && (kept & 1u) == 1u);
  return sign | (kept + select(0u, 1u, up));
}
