#use step dot_rows
// y = the sum over a token's experts e of weight_e * down_e hidden_e; see moe_hidden.
struct Routing {
  n_used: u32,
  first_expert: u32,
  n_experts: u32,
}

@group(1) @binding(5) var<storage, read_write> y: array<f32>;
@group(1) @binding(6) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(7) var<uniform> routing: Routing;
@group(1) @binding(8) var<storage, read_write> weights: array<f32>;
#use moe_result

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  let first = (id.x + id.y * groups.x) * R;
  for (var i = id.z * routing.n_used; i < (id.z + 1u) * routing.n_used; i++) {
    let expert = chosen[i] - routing.first_expert;
    if (expert < routing.n_experts) {
      var rows: array<u32, R>;
      for (var r = 0u; r < R; r++) {
        rows[r] = (expert * m.n_out + min(first + r, m.n_out - 1u)) * m.row_bytes;
      }
      accumulate(lane, 0u, rows, array<u32, NT>(i * m.n_in), result_weight(i, chosen[i]));
    }
  }
  finish(who);
  if (lane < OUT && first + lane < m.n_out) {
    let at = id.z * m.n_out + first + lane;
    var total = totals[lane];
#if DOWN_BIAS
    for (var i = id.z * routing.n_used; i < (id.z + 1u) * routing.n_used; i++) {
      if (chosen[i] - routing.first_expert < routing.n_experts) {
        total += bias_of(i, chosen[i], m.n_out, first + lane);
      }
    }
#end
    if (routing.first_expert > 0u) { total += y[at]; }
    y[at] = total;
  }
}
