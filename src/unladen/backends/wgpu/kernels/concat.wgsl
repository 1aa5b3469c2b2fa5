#use step element
// One input of y = x_0, x_1, ... side by side: columns at .. at + n_cols of each head's n_out.
struct Params {
  n_cols: u32,
  n_out: u32,
  at: u32,
  n_heads: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_heads * params.n_cols) { return; }
  let head = i / params.n_cols;
#if SHARED
  let from_x = head / params.n_heads * params.n_cols + i % params.n_cols;
#else
  let from_x = i;
#end
  y[head * params.n_out + params.at + i % params.n_cols] = x[from_x];
}
