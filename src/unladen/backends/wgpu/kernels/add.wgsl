#use step element
// y = a + b. With ROW, b is one row that is added to every row of a.
struct Params {
  n_cols: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> a: array<f32>;
#if ROW
@group(1) @binding(2) var<storage, read> b: array<f32>;
#else
@group(1) @binding(2) var<storage, read_write> b: array<f32>;
#end
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
#if ROW
  y[i] = a[i] + b[i % params.n_cols];
#else
  y[i] = a[i] + b[i];
#end
}
