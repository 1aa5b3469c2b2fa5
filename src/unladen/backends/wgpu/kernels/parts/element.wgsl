// A thread for each element of an array of n_rows(ROWS) rows.

fn element(id: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (id.x + id.y * groups.x) * 256u + lane;
}
