// For formats whose codes of 4 bits name one of 16 uneven levels; LEVELS holds these as int8, four
// in a word.

fn level(code: u32) -> u32 {
  return (LEVELS[code >> 2u] >> (8u * (code & 3u))) & 255u;
}

// The levels that four codes name, one code in each byte.
fn levels(codes: u32) -> u32 {
  let c = unpack4xU8(codes);
  return pack4xU8(vec4u(level(c.x), level(c.y), level(c.z), level(c.w)));
}
