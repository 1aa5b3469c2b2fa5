// The bindings of attention kernels except the cache. A workgroup takes R query rows.
struct Params {
  n_heads: u32,
  n_kv_heads: u32,
  block_tokens: u32,
  k_row_bytes: u32,
  v_row_bytes: u32,
  scale: f32,
  window: u32,
  softcap: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(3) var<storage, read_write> q: array<vec4f>;
@group(1) @binding(4) var<storage, read_write> y: array<f32>;

const R = TILE_TOKENS * TILE_HEADS;
const LOWEST = -3.0e38;
