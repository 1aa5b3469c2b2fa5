#use step element
// y[t] = 1 + scale log(1 + n), where n counts the whole lengths before the token's position.
typedef struct {
  u32 length, offset;
  float scale;
} Params;

#bind struct Params params
#bind out float y

KERNEL(position_scale) {
  const u32 t = ELEMENT;
  if (t >= n_rows(args, ROW_KIND)) return;
  const u32 n = ((u32)batch(args, POSITIONS, t) + params.offset) / params.length;
  y[t] = 1.0f + params.scale * log_f32(1.0f + (float)n);
}
