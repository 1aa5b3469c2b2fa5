#use step exp sum
// Adds up the shares of a query row's keys. Each share left its sums of values, the largest score
// that they are relative to, and the sum of its weights. A workgroup takes a row, a thread a column
// of every SLICES-th share.
struct Params {
  n_heads: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

const COLUMNS = min(VD, WG);
const SLICES = WG / COLUMNS;

var<workgroup> factor: array<f32, MAX_SPLITS>;
var<workgroup> sums: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  // Workgroups beyond the last row repeat it: all must come to the barriers.
  let row = min(id.x + id.y * groups.x, n_rows(N_TOKENS) * params.n_heads - 1u);
  let n_splits = min(u32(step[N_SPLITS]), MAX_SPLITS);
  let at = row * n_splits * (VD + 2u);
  var top = -3.0e38;
  var weights = 0.0;
  if (lane < n_splits) {
    top = x[at + lane * (VD + 2u) + VD];
    weights = x[at + lane * (VD + 2u) + VD + 1u];
  }
  let own = exp_f32(top - max_all(who, top));
  if (lane < n_splits) { factor[lane] = own; }
  let sum = sum_all(who, select(0.0, own * weights, lane < n_splits));
  // With more columns than threads there is one slice, and a thread reads its own sum alone. So no
  // turn waits for the one before.
  for (var first = 0u; first < VD; first += COLUMNS) {
    let column = min(first + lane % COLUMNS, VD - 1u);
    var total = 0.0;
    for (var s = lane / COLUMNS; s < n_splits; s += SLICES) {
      total += x[at + s * (VD + 2u) + column] * factor[s];
    }
    sums[lane] = total;
    workgroupBarrier();
    if (lane < COLUMNS && first + lane < VD) {
      var value = 0.0;
      for (var s = 0u; s < SLICES; s++) { value += sums[s * COLUMNS + lane]; }
      y[row * VD + first + lane] = value / sum;
    }
  }
}
