#use matrix thread
#if CODED
@group(1) @binding(4) var<storage, read_write> x_codes: array<vec4u>;
@group(1) @binding(13) var<storage, read_write> x_scales: array<vec2f>;
#else
#use columns
#if INT_DOT
#use rounding
#end
#end
// A workgroup of WG threads multiplies R rows of blocks with NT rows of x. A thread takes every
// WG-th group of units; the threads' partial sums are added in a fixed order.
const OUT = R * NT;
var<private> partial: array<f32, ALL_OUT>;
#if SUBGROUPS
// No subgroup has fewer than four threads.
var<workgroup> sums: array<f32, WG / 4u * ALL_OUT>;
#else
var<workgroup> sums: array<f32, WG * ALL_OUT>;
#end
var<workgroup> totals: array<f32, ALL_OUT>;

// partial[offset + r * NT + n] += factor * (row r times x n); rows at byte addresses, x at
// elements.
#if INT_DOT
fn accumulate(lane: u32, offset: u32, rows: array<u32, R>, xs: array<u32, NT>, factor: f32) {
  const per_block = BLOCK / 8u / GROUP;
  let n_groups = m.n_in / BLOCK * per_block;
  for (var g = lane; g < n_groups; g += WG) {
    let block = g / per_block;
    let first = (g % per_block) * GROUP;
    var x: array<Activations, NT>;
    for (var n = 0u; n < NT; n++) { x[n] = activations(xs[n], block * BLOCK, first); }
    for (var r = 0u; r < R; r++) {
      let at = rows[r] + block * BLOCK_BYTES;
      let scale = scales(at, first);
      var sum: array<vec2i, NT> = array<vec2i, NT>();
      let units = packed_group(at, first);
      for (var k = 0u; k < GROUP; k++) {
        let c = units[k];
        for (var n = 0u; n < NT; n++) {
          sum[n] += vec2i(dot4I8Packed(c.x, x[n].codes[k].x), dot4I8Packed(c.y, x[n].codes[k].y));
        }
      }
      for (var n = 0u; n < NT; n++) {
        var total = dot(scale.xz * x[n].scale, vec2f(sum[n]));
        if (SHIFTED) { total += dot(scale.yw, x[n].sum); }
        partial[offset + r * NT + n] += factor * total;
      }
    }
  }
}

// The columns of x for a group of units, rounded to int8: lo and hi have a scale each, and the sum
// of their columns before rounding. With CODED, `norm_quantize` rounded them.
struct Activations {
  codes: array<vec2u, GROUP>,
  scale: vec2f,
  sum: vec2f,
}

#if CODED
fn activations(at: u32, p: u32, first: u32) -> Activations {
  let run = (at + p + unit_at(first)) / 16u;
  let lo = x_codes[run];
  let hi = x_codes[run + SPAN / 16u];
  var x = Activations();
  for (var k = 0u; k < GROUP; k++) { x.codes[k] = vec2u(lo[k], hi[k]); }
  x.scale = vec2f(x_scales[run].x, x_scales[run + SPAN / 16u].x);
  x.sum = vec2f(x_scales[run].y, x_scales[run + SPAN / 16u].y);
  return x;
}
#else
fn activations(at: u32, p: u32, first: u32) -> Activations {
  var lo: array<vec4f, GROUP>;
  var hi: array<vec4f, GROUP>;
  var largest = vec2f();
  var x = Activations();
  for (var k = 0u; k < GROUP; k++) {
    lo[k] = columns(at, p + unit_at(first + k));
    hi[k] = columns(at, p + unit_at(first + k) + SPAN);
    largest = vec2f(larger(largest.x, largest_of(lo[k])), larger(largest.y, largest_of(hi[k])));
    if (SHIFTED) { x.sum += vec2f(dot(lo[k], vec4f(1.0)), dot(hi[k], vec4f(1.0))); }
  }
  let inverse = vec2f(inverse_scale(largest.x), inverse_scale(largest.y));
  x.scale = largest / 127.0;
  for (var k = 0u; k < GROUP; k++) {
    x.codes[k] = vec2u(rounded(lo[k], inverse.x), rounded(hi[k], inverse.y));
  }
  return x;
}
#end
#else
fn accumulate(lane: u32, offset: u32, rows: array<u32, R>, xs: array<u32, NT>, factor: f32) {
  const per_block = BLOCK / 8u / GROUP;
  let n_groups = (m.n_in + BLOCK - 1u) / BLOCK * per_block;
  for (var g = lane; g < n_groups; g += WG) {
    let block = g / per_block;
    let first = (g % per_block) * GROUP;
    // Set explicitly: some compilers clear a variable of a loop's body only once.
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
#end

// Leaves the sums over all threads in `totals`, for every thread to read.
fn finish(who: Thread) {
  let lane = who.lane;
#if SUBGROUPS
  for (var o = 0u; o < ALL_OUT; o++) {
    let part = subgroupAdd(partial[o]);
    if (who.in_subgroup == 0u) { sums[who.subgroup * ALL_OUT + o] = part; }
  }
  workgroupBarrier();
  if (lane < ALL_OUT) {
    var total = 0.0;
    for (var i = 0u; i < who.n_subgroups; i++) { total += sums[i * ALL_OUT + lane]; }
    totals[lane] = total;
  }
#else
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
#end
  workgroupBarrier();
}
