#use step dot_rows
// Multiplies the first columns of each head with that head's matrix, and copies the others. A head
// takes each_head workgroups, and the m.n_rows heads of a token follow each other.
struct Heads {
  n_heads: u32,
  width: u32,
  first_head: u32,
}

@group(1) @binding(5) var<storage, read_write> y: array<f32>;
@group(1) @binding(6) var<uniform> heads: Heads;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let each_head = (m.n_out + R - 1u) / R;
  let group = id.x + id.y * groups.x;
  let first = group % each_head * R;
  let head = group / each_head % m.n_rows;
  let t = min(group / each_head / m.n_rows, n_rows(ROW_KIND) - 1u);
  let pair = t * heads.n_heads + heads.first_head + head;
  let rest = heads.width - m.n_in;
  var rows: array<u32, R>;
  for (var r = 0u; r < R; r++) {
    rows[r] = (head * m.n_out + min(first + r, m.n_out - 1u)) * m.row_bytes;
  }
  accumulate(lane, 0u, rows, array<u32, NT>(pair * heads.width), 1.0);
  finish(who);
  let to = pair * (m.n_out + rest);
  if (lane < OUT && first + lane < m.n_out) { y[to + first + lane] = totals[lane]; }
  if (first == 0u) {
    for (var i = lane; i < rest; i += WG) {
      y[to + m.n_out + i] = value(pair * heads.width + m.n_in + i);
    }
  }
}
