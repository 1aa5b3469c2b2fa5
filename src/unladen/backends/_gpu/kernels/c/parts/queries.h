// The queries of a tile, four numbers an element.
#shared f4 q_tile (R * KD / 4u)

FN void load_queries(ARGS, Tile tile) {
  for (u32 i = LANE; i < R * KD / 4u; i += WG) {
    const u32 r = i / (KD / 4u);
    const u32 row = token_of(tile, r) * params.n_heads + head_of(tile, r);
    q_tile[i] = q[row * (KD / 4u) + i % (KD / 4u)];
  }
}
