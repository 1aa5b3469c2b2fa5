#use step matrix columns result
// y = x w^T (+ bias) for many rows of x, in tiles of 64 rows of w by 64 rows of x by 32 columns, or
// rather by four units of a block: the order of the columns doesn't matter where it is the same in
// both tiles. Each weight is decoded once for 64 rows of x.
const TILE = 64u;
var<workgroup> w_tile: array<vec4f, 512>;
var<workgroup> x_tile: array<vec4f, 512>;

// Four columns of a row of a tile; rows are shuffled so that eight neighbours, read together, lie
// in different banks.
fn place(row: u32, four: u32) -> u32 {
  return row * 8u + (four ^ (row & 7u));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  const units = BLOCK / 8u;
  let first = (id.x + id.y * groups.x) * TILE;
  let count = n_rows(ROWS);
  let token = id.z * TILE;
  let fill = lane / 4u;
  let w_row = min(first + fill, m.n_rows - 1u) * m.row_bytes;
  let x_row = min(token + fill, count - 1u) * m.n_in;
  let i = lane % 16u;
  let j = lane / 16u;
  var acc: array<vec4f, 4>;
  let n_units = (m.n_in + BLOCK - 1u) / BLOCK * units;
  for (var next = 0u; next < n_units; next += 4u) {
    let unit = next + lane % 4u;
    let u = unit % units;
    let at = w_row + unit / units * BLOCK_BYTES;
    let p = unit / units * BLOCK + unit_at(u);
    let scale = scales(at, u);
    var c = codes(at, u);
    c.lo *= scale.x;
    c.hi *= scale.z;
    if (SHIFTED) {
      c.lo += scale.y;
      c.hi += scale.w;
    }
    let four = 2u * (lane % 4u);
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
  for (var r = 0u; r < 4u; r++) {
    let row = first + i + 16u * r;
    for (var n = 0u; n < 4u; n++) {
      let t = token + j + 16u * n;
      if (row < m.n_rows && t < count) {
        store(with_bias(acc[r][n], m.first_row + row), t, m.first_row + row);
      }
    }
  }
}
