#use step element
// Adds the `count` streams of one input to the weighted sums, with the weights from row `first` on.
// The first input starts the sums.
struct Params {
  width: u32,
  n_in: u32,
  n_out: u32,
  first: u32,
  count: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> w: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  let n_cols = params.n_out * params.width;
  if (i >= n_rows(ROW_KIND) * n_cols) { return; }
  let row = i / n_cols;
  let to = i % n_cols / params.width;
  var sum = 0.0;
#if FURTHER
  sum = y[i];
#end
  for (var s = 0u; s < params.count; s++) {
    sum += w[(row * params.n_in + params.first + s) * params.n_out + to]
         * x[(row * params.count + s) * params.width + i % params.width];
  }
  y[i] = sum;
}
