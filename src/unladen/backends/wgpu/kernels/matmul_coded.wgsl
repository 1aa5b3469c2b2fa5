#use step matrix result
// y = x w^T (+ bias) for many rows of x that `quantize` rounded to int8, and weights that are int8
// codes times a scale. 256 threads compute TM rows of w by TN rows of x, each thread every 16th row
// of both. A tile holds one group of each row: two runs of 16 columns with a scale each.
@group(1) @binding(2) var<storage, read_write> x_codes: array<vec4u>;
@group(1) @binding(4) var<storage, read_write> x_scales: array<vec2f>;

const RM = TM / 16u;
const RN = TN / 16u;

// The first runs of all rows, then the second ones.
var<workgroup> w_tile: array<vec4u, 2u * TM>;
var<workgroup> x_tile: array<vec4u, 2u * TN>;
// For a run of w: the factor of its codes, and what is added to each.
var<workgroup> w_scale: array<vec2f, 2u * TM>;
// For a run of x: the factor of its codes, and the sum of its columns.
var<workgroup> x_scale: array<vec2f, 2u * TN>;

fn dot_run(a: vec4u, b: vec4u) -> i32 {
  return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z)
       + dot4I8Packed(a.w, b.w);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  const per_block = BLOCK / 8u / GROUP;
  let first = (id.x + id.y * groups.x) * TM;
  let token = id.z * TN;
  let count = n_rows(ROW_KIND);
  let i = lane % 16u;
  let j = lane / 16u;
  let n_groups = m.n_in / BLOCK * per_block;
  var acc: array<f32, RM * RN>;
  for (var g = 0u; g < n_groups; g++) {
    let block = g / per_block;
    let u = g % per_block * GROUP;
    for (var row = lane; row < TM + TN; row += WG) {
      if (row < TM) {
        let at = min(first + row, m.n_rows - 1u) * m.row_bytes + block * BLOCK_BYTES;
        let c = packed_group(at, u);
        let s = scales(at, u);
        w_tile[row] = vec4u(c[0].x, c[1].x, c[2].x, c[3].x);
        w_tile[TM + row] = vec4u(c[0].y, c[1].y, c[2].y, c[3].y);
        w_scale[row] = s.xy;
        w_scale[TM + row] = s.zw;
      } else {
        let t = row - TM;
        let run = (min(token + t, count - 1u) * m.n_in + block * BLOCK + unit_at(u)) / 16u;
        x_tile[t] = x_codes[run];
        x_tile[TN + t] = x_codes[run + SPAN / 16u];
        x_scale[t] = x_scales[run];
        x_scale[TN + t] = x_scales[run + SPAN / 16u];
      }
    }
    workgroupBarrier();
    for (var part = 0u; part < 2u; part++) {
      var b: array<vec4u, RN>;
      var s: array<vec2f, RN>;
      for (var n = 0u; n < RN; n++) {
        b[n] = x_tile[part * TN + j + 16u * n];
        s[n] = x_scale[part * TN + j + 16u * n];
      }
      for (var r = 0u; r < RM; r++) {
        let a = w_tile[part * TM + i + 16u * r];
        let scale = w_scale[part * TM + i + 16u * r];
        for (var n = 0u; n < RN; n++) {
          var sum = acc[r * RN + n];
          sum = fma(scale.x * s[n].x, f32(dot_run(a, b[n])), sum);
          if (SHIFTED) { sum = fma(scale.y, s[n].y, sum); }
          acc[r * RN + n] = sum;
        }
      }
    }
    workgroupBarrier();
  }
  for (var r = 0u; r < RM; r++) {
    let row = first + i + 16u * r;
    for (var n = 0u; n < RN; n++) {
      let t = token + j + 16u * n;
      if (row < m.n_rows && t < count) {
        store(with_bias(acc[r * RN + n], m.first_row + row), t, m.first_row + row);
      }
    }
  }
}
