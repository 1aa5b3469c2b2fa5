#use step sum
// y = x / sqrt(mean(x^2) + eps) * w. A workgroup takes a group of `size` items of a row; an item is
// four columns or one. w repeats every `period` items.
struct Params {
  n_items: u32,
  size: u32,
  eps: f32,
  period: u32,
}

#if FOURS
alias Item = vec4f;
const COLUMNS = 4.0;

fn square(v: Item) -> f32 { return dot(v, v); }
#else
alias Item = f32;
const COLUMNS = 1.0;

fn square(v: Item) -> f32 { return v * v; }
#end

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<Item>;
#if WEIGHT
@group(1) @binding(2) var<storage, read> w: array<Item>;
#end
@group(1) @binding(3) var<storage, read_write> y: array<Item>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let n_groups = n_rows(ROW_KIND) * (params.n_items / params.size);
  let at = min(id.x + id.y * groups.x, n_groups - 1u) * params.size;
  var kept: array<Item, KEPT>;
  var s = 0.0;
  for (var k = 0u; k < KEPT; k++) {
    if (lane + k * WG < params.size) {
      kept[k] = x[at + lane + k * WG];
      s += square(kept[k]);
    }
  }
  for (var i = lane + KEPT * WG; i < params.size; i += WG) { s += square(x[at + i]); }
  let factor = 1.0 / sqrt(sum_all(who, s) / (COLUMNS * f32(params.size)) + params.eps);
  for (var k = 0u; k < KEPT; k++) {
    if (lane + k * WG < params.size) { finish(at + lane + k * WG, kept[k] * factor); }
  }
  for (var i = lane + KEPT * WG; i < params.size; i += WG) { finish(at + i, x[at + i] * factor); }
}

fn finish(i: u32, value: Item) {
#if WEIGHT
  y[i] = value * w[i % params.n_items % params.period];
#else
  y[i] = value;
#end
}
