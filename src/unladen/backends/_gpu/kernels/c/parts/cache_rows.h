// Rows of the cache: four numbers of a key, one of a value. K_F32 ... V_Q8_0 name their formats.
#bind in u32 keys
#bind in u32 values

FN u32 word_from_halves(Bytes b, u32 at) {
  return load_u16(b, at) | (load_u16(b, at + 2u) << 16);
}

FN f4 key_four(ARGS, u32 at, u32 d) {
#if K_F32
  const u32 i = at + 4u * d;
  return F4(as_f32(load_u32(keys, i)), as_f32(load_u32(keys, i + 4u)),
            as_f32(load_u32(keys, i + 8u)), as_f32(load_u32(keys, i + 12u)));
#end
#if K_F16
  return f4_halves(U2(load_u32(keys, at + 2u * d), load_u32(keys, at + 2u * d + 4u)));
#end
#if K_Q8_0
  const u32 block = at + d / 32u * 34u;
  return f16_to_f32(load_u16(keys, block))
         * f4_signed(word_from_halves(keys, block + 2u + d % 32u));
#end
}

FN float value_one(ARGS, u32 at, u32 d) {
#if V_F32
  return as_f32(load_u32(values, at + 4u * d));
#end
#if V_F16
  return f16_to_f32(load_u16(values, at + 2u * d));
#end
#if V_Q8_0
  const u32 block = at + d / 32u * 34u;
  return f16_to_f32(load_u16(values, block)) * (float)i8_of(load_u8(values, block + 2u + d % 32u));
#end
}
