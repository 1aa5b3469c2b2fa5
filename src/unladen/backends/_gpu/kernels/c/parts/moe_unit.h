// Hidden number `row` of an expert for a pair, from the results of its gate and its up matrix; and
// the addresses of the experts' rows. Experts are counted from the first held.
typedef struct {
  u32 n_used, first_expert, n_experts, rows_apart, up_first;
  float limit, up_offset, gate_limit;
} Routing;

#bind struct Routing routing
#if WEIGHED
#bind in float weights
#end
#if GATE_BIAS
#bind in float gate_bias
#end
#if UP_BIAS
#bind in float up_bias
#end

// Where row `row` of expert `expert`, counted from those that the bindings hold, begins in bytes.
FN u32 row_of(ARGS, u32 expert, u32 row) {
  return (expert * routing.rows_apart + row) * m.row_bytes;
}

FN float unit(ARGS, float gate, float up, u32 pair, u32 expert, u32 row) {
  float g = gate, u = up;
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
  g = min_f32(g, routing.gate_limit);
  u = clamp_f32(u, -routing.limit, routing.limit);
#end
  return activate(g) * (u + routing.up_offset);
#else
  return activate(u);
#end
}
