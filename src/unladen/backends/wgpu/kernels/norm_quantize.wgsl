#use step sum runs
// What `rms_norm` and `quantize` give together: y = x / sqrt(mean(x^2) + eps) * w as int8, a scale
// for each run of 16 columns, and the sum of these before rounding. A workgroup takes a row. Each
// thread loads KEPT items of four columns of x and of w before squares are added up; with LONGER
// the row has more of them.
struct Params {
  n_cols: u32,
  eps: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<vec4f>;
#if WEIGHT
@group(1) @binding(2) var<storage, read> w: array<vec4f>;
#end

// Items first + lane + k * WG of the row that begins at item `row`, and their weights; 0 beyond it.
fn load_items(lane: u32, row: u32, first: u32, own: ptr<function, array<vec4f, KEPT>>,
              weight: ptr<function, array<vec4f, KEPT>>) {
  for (var k = 0u; k < KEPT; k++) {
    let i = first + lane + k * WG;
    (*own)[k] = vec4f();
    (*weight)[k] = vec4f(1.0);
    if (i < params.n_cols / 4u) {
      (*own)[k] = x[row + i];
#if WEIGHT
      (*weight)[k] = w[i];
#end
    }
  }
}

// Rounds items that were loaded, and stores them.
fn store_items(lane: u32, row: u32, first: u32, factor: f32,
               own: ptr<function, array<vec4f, KEPT>>,
               weight: ptr<function, array<vec4f, KEPT>>) {
  var v: array<vec4f, KEPT>;
  for (var k = 0u; k < KEPT; k++) { v[k] = (*own)[k] * factor * (*weight)[k]; }
  store_runs(lane, row + first, row + params.n_cols / 4u, &v);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let n_items = params.n_cols / 4u;
  let at = min(id.x + id.y * groups.x, n_rows(ROW_KIND) - 1u) * n_items;
  var own: array<vec4f, KEPT>;
  var weight: array<vec4f, KEPT>;
  load_items(lane, at, 0u, &own, &weight);
  var s = 0.0;
  for (var k = 0u; k < KEPT; k++) { s += dot(own[k], own[k]); }
#if LONGER
  for (var i = lane + KEPT * WG; i < n_items; i += WG) { s += dot(x[at + i], x[at + i]); }
#end
  let factor = 1.0 / sqrt(sum_all(who, s) / f32(params.n_cols) + params.eps);
  store_items(lane, at, 0u, factor, &own, &weight);
#if LONGER
  for (var first = KEPT * WG; first < n_items; first += KEPT * WG) {
    workgroupBarrier();
    load_items(lane, at, first, &own, &weight);
    store_items(lane, at, first, factor, &own, &weight);
  }
#end
}
