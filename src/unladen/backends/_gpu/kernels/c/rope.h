#use step element
// Rotates pairs of every head, counted from its column `first`: (2i, 2i + 1), or with neox
// (i, i + n_rot / 2). With TWO, the first n_first columns of a row are those of x, the others those
// of x1.
typedef struct {
  u32 n_cols, n_first, head_dim, n_rot, neox, first;
} Params;

#bind struct Params params
#bind in float x
#bind out float y
#if TWO
#bind in float x1
#bind out float y1
#end

#use turn

KERNEL(rope) {
  const u32 e = ELEMENT;
  if (e >= n_rows(args, ROW_KIND) * params.n_cols) return;
  const u32 t = e / params.n_cols;
  const u32 c = e % params.n_cols;
  // Wraps around for columns before the first rotated one.
  const u32 d = c % params.head_dim - params.first;
  Turn by = {0, 1.0f, 0.0f};
  if (d < params.n_rot) by = turn_of(args, t, d);
#if TWO
  if (c >= params.n_first) {
    const u32 i1 = t * (params.n_cols - params.n_first) + c - params.n_first;
    y1[i1] = x1[i1] * by.own + x1[(u32)((int)i1 + by.other)] * by.partner;
    return;
  }
#end
  const u32 i = t * params.n_first + c;
  y[i] = x[i] * by.own + x[(u32)((int)i + by.other)] * by.partner;
}
