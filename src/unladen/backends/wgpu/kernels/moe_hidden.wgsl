#use step dot_rows exp activation
// act(gate_e x) * (up_e x) for each token and each expert e chosen for it. The rows of all experts
// stand under one another; a dispatch computes those of the experts that its bindings hold.
struct Routing {
  n_used: u32,
  first_expert: u32,
  n_experts: u32,
}

@group(1) @binding(5) var<storage, read_write> y: array<f32>;
@group(1) @binding(6) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(7) var<uniform> routing: Routing;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let first = (id.x + id.y * groups.x) * R;
  let expert = chosen[id.z] - routing.first_expert;
  let is_here = expert < routing.n_experts;
  if (is_here) {
    var rows: array<u32, R>;
    for (var r = 0u; r < R; r++) {
      rows[r] = (expert * m.n_out + min(first + r, m.n_out - 1u)) * m.row_bytes;
    }
    let xs = array<u32, NT>(id.z / routing.n_used * m.n_in);
    accumulate(lane, 0u, rows, xs, 1.0);
    which = 1u;
    accumulate(lane, OUT, rows, xs, 1.0);
  }
  finish(who);
  if (is_here && lane < OUT && first + lane < m.n_out) {
    y[id.z * m.n_out + first + lane] = activate(totals[lane]) * totals[OUT + lane];
  }
}
