#if TILED
#use step tiles
#else
#use step matrix
#end
// y[t] = w[ids[t]]. Each thread decodes eight weights; a row takes each_row workgroups.
#bind out float y

FN void put(ARGS, u32 t, u32 p, float value) {
  if (p < m.n_in) y[t * m.n_in + p] = value;
}

FN void put_four(ARGS, u32 t, u32 p, f4 v) {
  put(args, t, p, v.x);
  put(args, t, p + 1u, v.y);
  put(args, t, p + 2u, v.z);
  put(args, t, p + 3u, v.w);
}

KERNEL(embed) {
  const u32 units = BLOCK / 8u;
  const u32 each_row = (m.n_in + 8u * WG - 1u) / (8u * WG), group = GROUP_X + GROUP_Y * N_GROUPS_X;
  const u32 t = group / each_row;
  if (t >= n_rows(args, ROW_KIND)) return;
  const u32 unit = group % each_row * WG + LANE;
  const u32 row = (u32)batch(args, IDS, t) - m.first_row;
  if (row >= m.n_rows) return;
  const u32 u = unit % units;
  const u32 block = unit / units;
  if (block * BLOCK >= m.n_in) return;
#if TILED
  const u32 each = TILE_COLUMNS / 8u;
  const u32 tile = row / 16u * (16u * m.row_bytes) + unit / each * TILE_BYTES;
  const Codes c = tile_unit(args, w, tile, row % 16u, unit % each);
#if PLAIN
  const f4 scale = F4(1.0f, 0.0f, 1.0f, 0.0f);
#else
  const f4 scale = scales(args, w, aside_of(tile, row % 16u, unit % each / units), u);
#end
#else
  const u32 at = row * m.row_bytes;
  const f4 scale = scales(args, w, at + block * BLOCK_BYTES, u);
  const Codes c = row_codes(args, w, at, block, u, m.n_in);
#end
  const u32 p = block * BLOCK + unit_at(u);
  put_four(args, t, p, scale.x * c.lo + scale.y);
  put_four(args, t, p + SPAN, scale.z * c.hi + scale.w);
}
