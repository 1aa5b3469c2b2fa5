// Columns p .. p + 3 of the row of x that begins at element `at`.
#if RAGGED
@group(1) @binding(4) var<storage, read_write> x: array<f32>;

fn columns(at: u32, p: u32) -> vec4f {
  var v = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (p + i < m.n_in) { v[i] = x[at + p + i]; }
  }
  return v;
}

// Element `at` of x.
fn value(at: u32) -> f32 {
  return x[at];
}
#else
@group(1) @binding(4) var<storage, read_write> x: array<vec4f>;

fn columns(at: u32, p: u32) -> vec4f {
  return x[(at + p) >> 2u];
}

fn value(at: u32) -> f32 {
  return x[at >> 2u][at & 3u];
}
#end
