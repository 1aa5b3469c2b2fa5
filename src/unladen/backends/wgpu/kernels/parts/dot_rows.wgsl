#use matrix columns
// R rows of blocks times NT rows of x, by a workgroup of WG threads. A thread takes every WG-th
// group of units; the partial sums of the threads are added in a fixed order.
const OUT = R * NT;
var<private> partial: array<f32, ALL_OUT>;
var<workgroup> sums: array<f32, WG * ALL_OUT>;
var<workgroup> totals: array<f32, ALL_OUT>;

// partial[offset + r * NT + n] += factor * (row r times x n); rows at byte addresses, x at elements.
fn accumulate(lane: u32, offset: u32, rows: array<u32, R>, xs: array<u32, NT>, factor: f32) {
  const per_block = BLOCK / 8u / GROUP;
  let n_groups = (m.n_in + BLOCK - 1u) / BLOCK * per_block;
  for (var g = lane; g < n_groups; g += WG) {
    let block = g / per_block;
    let first = (g % per_block) * GROUP;
    // Set by hand: some compilers clear a variable of a loop's body only once.
    var scale: array<vec4f, R> = array<vec4f, R>();
    for (var r = 0u; r < R; r++) { scale[r] = scales(rows[r] + block * BLOCK_BYTES, first); }
    var sum: array<vec2f, OUT> = array<vec2f, OUT>();
    var sum_x: array<vec2f, NT> = array<vec2f, NT>();
    for (var k = 0u; k < GROUP; k++) {
      let p = block * BLOCK + unit_at(first + k);
      var lo: array<vec4f, NT> = array<vec4f, NT>();
      var hi: array<vec4f, NT> = array<vec4f, NT>();
      for (var n = 0u; n < NT; n++) {
        lo[n] = columns(xs[n], p);
        hi[n] = columns(xs[n], p + SPAN);
        if (SHIFTED) { sum_x[n] += vec2f(dot(lo[n], vec4f(1.0)), dot(hi[n], vec4f(1.0))); }
      }
      for (var r = 0u; r < R; r++) {
        let c = codes(rows[r] + block * BLOCK_BYTES, first + k);
        for (var n = 0u; n < NT; n++) {
          sum[r * NT + n] += vec2f(dot(c.lo, lo[n]), dot(c.hi, hi[n]));
        }
      }
    }
    for (var r = 0u; r < R; r++) {
      for (var n = 0u; n < NT; n++) {
        var total = dot(scale[r].xz, sum[r * NT + n]);
        if (SHIFTED) { total += dot(scale[r].yw, sum_x[n]); }
        partial[offset + r * NT + n] += factor * total;
      }
    }
  }
}

// The sums over all threads, in `totals` for everyone.
fn finish(lane: u32) {
  const share = WG / ALL_OUT;
  for (var o = 0u; o < ALL_OUT; o++) { sums[o * WG + lane] = partial[o]; }
  workgroupBarrier();
  var s = 0.0;
  for (var i = 0u; i < ALL_OUT; i++) { s += sums[(lane / share) * WG + lane % share + i * share]; }
  workgroupBarrier();
  sums[lane] = s;
  workgroupBarrier();
  if (lane < ALL_OUT) {
    var total = 0.0;
    for (var i = 0u; i < share; i++) { total += sums[lane * share + i]; }
    totals[lane] = total;
  }
  workgroupBarrier();
}
