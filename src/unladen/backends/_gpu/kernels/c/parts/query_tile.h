// A workgroup's place among query rows, which is the same for all of its threads.
typedef struct {
  u32 first, n_tokens, seq, kv_head, first_in_group, n_heads;
} Tile;

FN Tile tile_of(ARGS) {
  Tile tile;
#if DECODE
  // A step with one token of each sequence.
  tile.first = GROUP_X;
  tile.n_tokens = 1u;
  tile.seq = GROUP_X;
#else
  tile.first = (u32)batch(args, TILES, 3u * GROUP_X);
  tile.n_tokens = (u32)batch(args, TILES, 3u * GROUP_X + 1u);
  tile.seq = (u32)batch(args, TILES, 3u * GROUP_X + 2u);
#end
  const u32 chunks = (HEADS_PER_KEY + TILE_HEADS - 1u) / TILE_HEADS;
  tile.kv_head = GROUP_Y / chunks;
  tile.first_in_group = GROUP_Y % chunks * TILE_HEADS;
  tile.n_heads = min_u32(TILE_HEADS, HEADS_PER_KEY - tile.first_in_group);
  return tile;
}

// The token of row r, a row of another token or head where the tile has no row r.
FN u32 token_of(Tile tile, u32 r) {
  return tile.first + min_u32(r / TILE_HEADS, tile.n_tokens - 1u);
}

// The head of row r, likewise.
FN u32 head_of(Tile tile, u32 r) {
  return tile.kv_head * HEADS_PER_KEY + tile.first_in_group
         + min_u32(r % TILE_HEADS, tile.n_heads - 1u);
}

// Whether the tile has row r.
FN int has_row(Tile tile, u32 r) {
  return r % TILE_HEADS < tile.n_heads && r / TILE_HEADS < tile.n_tokens;
}

// The slot of the cache that holds position p of the tile's sequence.
FN u32 slot_of(ARGS, Tile tile, u32 p) {
  const u32 block = cache_block(args, tile.seq, FIRST_COLUMN, p, params.block_tokens);
  return (block * params.n_kv_heads + tile.kv_head) * params.block_tokens
         + p % params.block_tokens;
}

// Tiles of keys, KT at a time, that a workgroup reads: its share of those that some row sees.
// Shares differ by one tile at most.
typedef struct {
  u32 begin, end, n_keys;
} Share;

FN Share share_of(ARGS, Tile tile) {
  Share share;
  share.n_keys = end_key(args, last_key(args, tile.first + tile.n_tokens - 1u), tile.seq);
  share.begin = first_key(args, (u32)batch(args, INDEX, tile.first)) / KT;
  share.end = (share.n_keys + KT - 1u) / KT;
#if SPLIT
  const u32 n_tiles = share.end - share.begin;
  const u32 each = n_tiles / N_GROUPS_Z, more = n_tiles % N_GROUPS_Z;
  share.begin += GROUP_Z * each + min_u32(GROUP_Z, more);
  share.end = share.begin + each + (GROUP_Z < more ? 1u : 0u);
#end
  return share;
}
