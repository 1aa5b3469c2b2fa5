// Rows of the cache: eight numbers of a key, four of a value. K_F32 ... V_Q8_0 name their formats;
// rows of floats begin at a multiple of what is read at once.
#bind in u32 keys
#bind in u32 values

FN u32 word_from_halves(Bytes b, u32 at) {
  return load_u16(b, at) | (load_u16(b, at + 2u) << 16);
}

FN void key_eight(ARGS, u32 at, u32 d, PRIVATE f4 *out) {
#if K_F32
  out[0] = f4_bits(load_u128(keys, at + 4u * d));
  out[1] = f4_bits(load_u128(keys, at + 4u * d + 16u));
#end
#if K_F16
  const u4 bits = load_u128(keys, at + 2u * d);
  out[0] = f4_halves(U2(bits.x, bits.y));
  out[1] = f4_halves(U2(bits.z, bits.w));
#end
#if K_Q8_0
  const u32 block = at + d / 32u * 34u;
  const float scale = f16_to_f32(load_u16(keys, block));
  out[0] = scale * f4_signed(word_from_halves(keys, block + 2u + d % 32u));
  out[1] = scale * f4_signed(word_from_halves(keys, block + 6u + d % 32u));
#end
}

FN f4 value_four(ARGS, u32 at, u32 d) {
#if V_F32
  return f4_bits(load_u128(values, at + 4u * d));
#end
#if V_F16
  return f4_halves(load_u64(values, at + 2u * d));
#end
#if V_Q8_0
  const u32 block = at + d / 32u * 34u;
  return f16_to_f32(load_u16(values, block))
         * f4_signed(word_from_halves(values, block + 2u + d % 32u));
#end
}
