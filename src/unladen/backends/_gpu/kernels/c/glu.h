#use step element exp activation
// y = act(a) * (b + up_offset). Each column of a is for `each` columns of b. With LIMITED, a is
// first clamped to at most gate_limit, and b to between -limit and limit.
typedef struct {
  u32 n_cols, each;
  float limit, up_offset, gate_limit;
} Params;

#bind struct Params params
#bind in float a
#bind in float b
#bind out float y

KERNEL(glu) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  float gate = a[i / params.each];
  float up = b[i];
#if LIMITED
  gate = min_f32(gate, params.gate_limit);
  up = clamp_f32(up, -params.limit, params.limit);
#end
  y[i] = activate(gate) * (up + params.up_offset);
}
