#use step weighed columns result
// y = x w^T (+ bias) for many rows of x. 256 threads compute TM rows of w by TN rows of x, each
// thread every 16th row of both. They decode sixteen columns (two units of a row) into one tile
// while they use the other. The order of columns doesn't matter, if it is the same for w and x.
const RM = TM / 16u;
const RN = TN / 16u;
const HALVES = RN / 4u;

var<workgroup> w_tile: array<vec4f, BUFFERS * TM * 4u>;
var<workgroup> x_tile: array<vec4f, BUFFERS * TN * 4u>;

// Where four columns of a row of a tile lie: neither eight rows that are read together nor two
// units that are written together share a bank.
fn place(row: u32, four: u32) -> u32 {
  return row * 4u + (four ^ ((row >> 1u) & 3u));
}

fn fill(lane: u32, first: u32, token: u32, count: u32, next: u32, buffer: u32) {
  const units = BLOCK / 8u;
  let unit = next + lane % 2u;
  let u = unit % units;
  let four = 2u * (lane % 2u);
  let p = unit / units * BLOCK + unit_at(u);
  for (var row = lane / 2u; row < TM; row += 128u) {
    let at = min(first + row, m.n_rows - 1u) * m.row_bytes + unit / units * BLOCK_BYTES;
    let c = weighed(at, u);
    w_tile[buffer * TM * 4u + place(row, four)] = c.lo;
    w_tile[buffer * TM * 4u + place(row, four + 1u)] = c.hi;
  }
  for (var row = lane / 2u; row < TN; row += 128u) {
    let at = min(token + row, count - 1u) * m.n_in;
    x_tile[buffer * TN * 4u + place(row, four)] = columns(at, p);
    x_tile[buffer * TN * 4u + place(row, four + 1u)] = columns(at, p + SPAN);
  }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let first = (id.x + id.y * groups.x) * TM;
  let token = id.z * TN;
  let count = n_rows(ROW_KIND);
  let i = lane % 16u;
  let j = lane / 16u;
  let n_units = (m.n_in + BLOCK - 1u) / BLOCK * (BLOCK / 8u);
  var acc: array<vec4f, RM * HALVES>;
  fill(lane, first, token, count, 0u, 0u);
  for (var next = 0u; next < n_units; next += 2u) {
    let buffer = next / 2u % BUFFERS;
    workgroupBarrier();
#if DOUBLE
    if (next + 2u < n_units) { fill(lane, first, token, count, next + 2u, 1u - buffer); }
#end
    for (var k = 0u; k < 4u; k++) {
      var b: array<mat4x4f, HALVES>;
      for (var h = 0u; h < HALVES; h++) {
        let at = j + 64u * h;
        b[h] = transpose(mat4x4f(x_tile[buffer * TN * 4u + place(at, k)],
                                 x_tile[buffer * TN * 4u + place(at + 16u, k)],
                                 x_tile[buffer * TN * 4u + place(at + 32u, k)],
                                 x_tile[buffer * TN * 4u + place(at + 48u, k)]));
      }
      for (var r = 0u; r < RM; r++) {
        let a = w_tile[buffer * TM * 4u + place(i + 16u * r, k)];
        for (var h = 0u; h < HALVES; h++) {
          var s = acc[r * HALVES + h];
          s = fma(vec4f(a.x), b[h][0], s);
          s = fma(vec4f(a.y), b[h][1], s);
          s = fma(vec4f(a.z), b[h][2], s);
          acc[r * HALVES + h] = fma(vec4f(a.w), b[h][3], s);
        }
      }
    }
#if DOUBLE
#else
    workgroupBarrier();
    if (next + 2u < n_units) { fill(lane, first, token, count, next + 2u, 0u); }
#end
  }
  for (var r = 0u; r < RM; r++) {
    let row = first + i + 16u * r;
    for (var n = 0u; n < RN; n++) {
      let t = token + j + 16u * n;
      if (row < m.n_rows && t < count) {
        store(with_bias(acc[r * HALVES + n / 4u][n % 4u], m.first_row + row), t, m.first_row + row);
      }
    }
  }
}
