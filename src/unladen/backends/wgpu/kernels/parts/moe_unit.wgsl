// Hidden number `row` of an expert for a pair, from the results of its gate and its up matrix; and
// the addresses of the experts' rows. Experts are counted from the first held.
struct Routing {
  n_used: u32,
  first_expert: u32,
  n_experts: u32,
  rows_apart: u32,
  up_first: u32,
  limit: f32,
  up_offset: f32,
  gate_limit: f32,
}

@group(1) @binding(7) var<uniform> routing: Routing;
#if WEIGHED
@group(1) @binding(9) var<storage, read_write> weights: array<f32>;
#end
#if GATE_BIAS
@group(1) @binding(10) var<storage, read> gate_bias: array<f32>;
#end
#if UP_BIAS
@group(1) @binding(11) var<storage, read> up_bias: array<f32>;
#end

// Where row `row` of expert `expert`, counted from those that the bindings hold, begins in bytes.
fn row_of(expert: u32, row: u32) -> u32 {
  return (expert * routing.rows_apart + row) * m.row_bytes;
}

fn unit(gate: f32, up: f32, pair: u32, expert: u32, row: u32) -> f32 {
  var g = gate;
  var u = up;
#if WEIGHED
  g *= weights[pair];
  u *= weights[pair];
#end
#if GATE_BIAS
  g += gate_bias[expert * m.n_out + row];
#end
#if UP_BIAS
  u += up_bias[expert * m.n_out + row];
#end
#if SECOND
#if LIMITED
  g = min(g, routing.gate_limit);
  u = clamp(u, -routing.limit, routing.limit);
#end
  return activate(g) * (u + routing.up_offset);
#else
  return activate(u);
#end
}
