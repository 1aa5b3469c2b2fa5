#use step tile result
// y = x w^T (+ bias) for many rows of x.

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let first = (id.x + id.y * groups.x) * TILE;
  let count = n_rows(ROWS);
  let token = id.z * TILE;
  multiply(lane, min(first + lane / 4u, m.n_rows - 1u) * m.row_bytes,
           min(token + lane / 4u, count - 1u) * m.n_in);
  for (var r = 0u; r < 4u; r++) {
    let row = first + lane % 16u + 16u * r;
    for (var n = 0u; n < 4u; n++) {
      let t = token + lane / 16u + 16u * n;
      if (row < m.n_rows && t < count) {
        store(with_bias(acc[r][n], m.first_row + row), t, m.first_row + row);
      }
    }
  }
}
