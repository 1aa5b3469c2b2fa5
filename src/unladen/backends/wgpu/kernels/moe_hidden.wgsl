#use step dot_rows exp activation moe_unit
// act(gate_e x) * (up_e x), or act(up_e x), for each token and each expert e chosen for it. A
// dispatch computes the experts that its bindings hold; their rows follow one another.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;
@group(1) @binding(6) var<storage, read_write> chosen: array<u32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let first = (id.x + id.y * groups.x) * R;
  let expert = chosen[id.z] - routing.first_expert;
  let is_here = expert < routing.n_experts;
  if (is_here) {
    var rows: array<u32, R>;
    for (var r = 0u; r < R; r++) { rows[r] = row_of(expert, min(first + r, m.n_out - 1u)); }
    let xs = array<u32, NT>(id.z / routing.n_used * m.n_in);
    accumulate(lane, 0u, rows, xs, 1.0);
#if SECOND
    which = 1u;
    for (var r = 0u; r < R; r++) { rows[r] += routing.up_first * m.row_bytes; }
    accumulate(lane, OUT, rows, xs, 1.0);
#end
  }
  finish(who);
  if (is_here && lane < OUT && first + lane < m.n_out) {
    y[id.z * m.n_out + first + lane] = unit(totals[lane], totals[ALL_OUT - OUT + lane], id.z,
                                            chosen[id.z], first + lane);
  }
}
