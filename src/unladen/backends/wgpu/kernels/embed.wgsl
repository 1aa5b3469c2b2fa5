#use step matrix
// y[t] = w[ids[t]]. Each thread decodes eight weights.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  const units = BLOCK / 8u;
  let row = u32(batch(IDS, id.y)) - m.first_row;
  if (row >= m.n_rows) { return; }
  let u = id.x % units;
  let block = id.x / units;
  let p = block * BLOCK + unit_at(u);
  let at = row * m.row_bytes + block * BLOCK_BYTES;
  let scale = scales(at, u);
  let c = codes(at, u);
  for (var i = 0u; i < 4u; i++) {
    if (block * BLOCK < m.n_in && p + i < m.n_in) {
      y[id.y * m.n_in + p + i] = scale.x * c.lo[i] + scale.y;
    }
    if (block * BLOCK < m.n_in && p + SPAN + i < m.n_in) {
      y[id.y * m.n_in + p + SPAN + i] = scale.z * c.hi[i] + scale.w;
    }
  }
}
