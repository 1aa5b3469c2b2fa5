#use weighed
// Tiles of float32.
var<workgroup> w_tile: array<vec4f, 512>;
var<workgroup> x_tile: array<vec4f, 512>;

// A thread fills row lane / 4 of both tiles. That row begins at byte `w_row` of w and at element
// `x_row` of x.
fn multiply(lane: u32, w_row: u32, x_row: u32) {
  const units = BLOCK / 8u;
  let fill = lane / 4u;
  let four = 2u * (lane % 4u);
  let i = lane % 16u;
  let j = lane / 16u;
  let n_units = (m.n_in + BLOCK - 1u) / BLOCK * units;
  for (var next = 0u; next < n_units; next += 4u) {
    let unit = next + lane % 4u;
    let u = unit % units;
    let at = w_row + unit / units * BLOCK_BYTES;
    let p = unit / units * BLOCK + unit_at(u);
    let c = weighed(at, u);
    w_tile[place(fill, four)] = c.lo;
    w_tile[place(fill, four + 1u)] = c.hi;
    x_tile[place(fill, four)] = columns(x_row, p);
    x_tile[place(fill, four + 1u)] = columns(x_row, p + SPAN);
    workgroupBarrier();
    for (var k = 0u; k < 8u; k++) {
      let b0 = x_tile[place(j, k)];
      let b1 = x_tile[place(j + 16u, k)];
      let b2 = x_tile[place(j + 32u, k)];
      let b3 = x_tile[place(j + 48u, k)];
      for (var r = 0u; r < 4u; r++) {
        let a = w_tile[place(i + 16u * r, k)];
        acc[r] += vec4f(dot(a, b0), dot(a, b1), dot(a, b2), dot(a, b3));
      }
    }
    workgroupBarrier();
  }
}
