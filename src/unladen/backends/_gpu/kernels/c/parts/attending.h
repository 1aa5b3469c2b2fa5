// The arguments of attention kernels except the cache. A workgroup takes R query rows.
typedef struct {
  u32 n_heads, n_kv_heads, block_tokens, k_row_bytes, v_row_bytes;
  float scale;
  u32 window;
  float softcap;
} Params;

#bind struct Params params
#bind in f4 q
#bind out float y
#define R (TILE_TOKENS * TILE_HEADS)
#define LOWEST -3.0e38f
