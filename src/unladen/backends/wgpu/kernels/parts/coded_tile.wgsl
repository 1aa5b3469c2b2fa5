// Tiles of int8 codes; sums of products are scaled at the end. Codes of w are those of the file. x
// is rounded with a scale for 32 columns, within half of 1 / 127 of the largest of them.
fn four_dots(a: u32, b: array<u32, 4>) -> vec4i {
  return vec4i(dot4I8Packed(a, b[0]), dot4I8Packed(a, b[1]), dot4I8Packed(a, b[2]),
               dot4I8Packed(a, b[3]));
}

var<workgroup> w_tile: array<u32, 512>;
var<workgroup> x_tile: array<u32, 512>;
// The `scales` of the group of each row of w.
var<workgroup> w_scale: array<vec4f, TILE>;
// For each thread's columns of x: the largest size, and the sums of lo and of hi.
var<workgroup> found: array<vec3f, WG>;
// For each row of x: its scale, and the sums of all lo and of all hi.
var<workgroup> x_scale: array<vec3f, TILE>;

// A thread fills row lane / 4 of both tiles. That row begins at byte `w_row` of w and at element
// `x_row` of x.
fn multiply(lane: u32, w_row: u32, x_row: u32) {
  const units = BLOCK / 8u;
  let fill = lane / 4u;
  let four = 2u * (lane % 4u);
  let i = lane % 16u;
  let j = lane / 16u;
  let n_units = m.n_in / BLOCK * units;
  for (var next = 0u; next < n_units; next += 4u) {
    let unit = next + lane % 4u;
    let u = unit % units;
    let at = w_row + unit / units * BLOCK_BYTES;
    let p = unit / units * BLOCK + unit_at(u);
    let lo = columns(x_row, p);
    let hi = columns(x_row, p + SPAN);
    found[lane] = vec3f(larger(largest_of(lo), largest_of(hi)), dot(lo, vec4f(1.0)),
                        dot(hi, vec4f(1.0)));
    let c = packed(at, u);
    workgroupBarrier();
    var all = found[lane & ~3u];
    for (var k = 1u; k < 4u; k++) {
      let other = found[(lane & ~3u) + k];
      all = vec3f(larger(all.x, other.x), all.yz + other.yz);
    }
    let inverse = inverse_scale(all.x);
    w_tile[place(fill, four)] = c.x;
    w_tile[place(fill, four + 1u)] = c.y;
    x_tile[place(fill, four)] = rounded(lo, inverse);
    x_tile[place(fill, four + 1u)] = rounded(hi, inverse);
    all.x /= 127.0;
    if (lane % 4u == 0u) {
      w_scale[fill] = scales(at, u);
      x_scale[fill] = all;
    }
    workgroupBarrier();
    for (var part = 0u; part < 2u; part++) {
      var sum: array<vec4i, 4> = array<vec4i, 4>();
      for (var k = part; k < 8u; k += 2u) {
        let b = array<u32, 4>(x_tile[place(j, k)], x_tile[place(j + 16u, k)],
                               x_tile[place(j + 32u, k)], x_tile[place(j + 48u, k)]);
        for (var r = 0u; r < 4u; r++) { sum[r] += four_dots(w_tile[place(i + 16u * r, k)], b); }
      }
      var scale: vec4f;
      var shift: vec4f;
      for (var n = 0u; n < 4u; n++) {
        let s = x_scale[j + 16u * n];
        scale[n] = s.x;
        shift[n] = s[1u + part];
      }
      for (var r = 0u; r < 4u; r++) {
        let s = w_scale[i + 16u * r];
        acc[r] += s[2u * part] * scale * vec4f(sum[r]);
        if (SHIFTED) { acc[r] += s[2u * part + 1u] * shift; }
      }
    }
  }
}
