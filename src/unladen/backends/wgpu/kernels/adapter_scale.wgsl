#use step element
// y = x times the strength of its column in the set of adapters of the token's sequence.
struct Params {
  n_cols: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
// [sets][columns]
@group(1) @binding(1) var<storage, read> strengths: array<f32>;
@group(1) @binding(2) var<storage, read_write> x: array<f32>;
@group(1) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  let adapters = batch(ADAPTER_OF, u32(batch(SEQ_OF, i / params.n_cols)));
  if (adapters < 0) {
    y[i] = 0.0;
  } else {
    y[i] = x[i] * strengths[u32(adapters) * params.n_cols + i % params.n_cols];
  }
}
