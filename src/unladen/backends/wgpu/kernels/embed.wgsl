#use step matrix
// y[t] = w[ids[t]]. Each thread decodes eight weights; a row takes each_row workgroups.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  const units = BLOCK / 8u;
  let each_row = (m.n_in + 8u * WG - 1u) / (8u * WG);
  let group = id.x + id.y * groups.x;
  let t = group / each_row;
  if (t >= n_rows(ROW_KIND)) { return; }
  let row = u32(batch(IDS, t)) - m.first_row;
  if (row >= m.n_rows) { return; }
  let unit = group % each_row * WG + lane;
  let u = unit % units;
  let block = unit / units;
  let p = block * BLOCK + unit_at(u);
  let at = row * m.row_bytes + block * BLOCK_BYTES;
  let scale = scales(at, u);
  let c = codes(at, u);
  for (var i = 0u; i < 4u; i++) {
    if (block * BLOCK < m.n_in && p + i < m.n_in) {
      y[t * m.n_in + p + i] = scale.x * c.lo[i] + scale.y;
    }
    if (block * BLOCK < m.n_in && p + SPAN + i < m.n_in) {
      y[t * m.n_in + p + SPAN + i] = scale.z * c.hi[i] + scale.w;
    }
  }
}
