// The element of this thread, in kernels with a thread for each element.
fn element(id: vec3u, groups: vec3u, lane: u32) -> u32 {
  return (id.x + id.y * groups.x) * WG + lane;
}
