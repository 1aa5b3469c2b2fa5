// Columns p .. p + 3 of the row of x, of n_in columns, that begins at element `at`.
#if RAGGED
#bind in float x

FN f4 columns(ARGS, u32 n_in, u32 at, u32 p) {
  return F4(p < n_in ? x[at + p] : 0.0f, p + 1u < n_in ? x[at + p + 1u] : 0.0f,
            p + 2u < n_in ? x[at + p + 2u] : 0.0f, p + 3u < n_in ? x[at + p + 3u] : 0.0f);
}
#else
#bind in f4 x

FN f4 columns(ARGS, u32 n_in, u32 at, u32 p) { return x[(at + p) >> 2]; }
#end
