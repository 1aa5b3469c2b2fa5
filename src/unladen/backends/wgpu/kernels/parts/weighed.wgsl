#use matrix
// The weights of unit u of the block at byte `at`.
fn weighed(at: u32, u: u32) -> Codes {
  let scale = scales(at, u);
  var c = codes(at, u);
  c.lo *= scale.x;
  c.hi *= scale.z;
  if (SHIFTED) {
    c.lo += scale.y;
    c.hi += scale.w;
  }
  return c;
}
