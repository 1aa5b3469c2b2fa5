#use step
// Sorts the pairs of a token and an expert chosen for it by expert, and cuts each expert's pairs
// into tiles of at most TILE. tiles[0] counts them; each is an expert, its first place in `order`,
// and a number of pairs. One workgroup does it all. Pairs of one expert stay in the order of the
// tokens; pairs of experts beyond EXPERTS are left out.
struct Params {
  n_used: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(2) var<storage, read_write> order: array<u32>;
@group(1) @binding(3) var<storage, read_write> tiles: array<u32>;

var<workgroup> start: array<u32, EXPERTS>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
  let n_pairs = n_rows(ROW_KIND) * params.n_used;
  for (var e = lane; e < EXPERTS; e += WG) {
    var n = 0u;
    for (var p = 0u; p < n_pairs; p++) { n += select(0u, 1u, chosen[p] == e); }
    start[e] = n;
  }
  workgroupBarrier();
  if (lane == 0u) {
    var at = 0u;
    var n_tiles = 0u;
    for (var e = 0u; e < EXPERTS; e++) {
      let n = start[e];
      start[e] = at;
      for (var i = 0u; i < n; i += TILE) {
        tiles[1u + 3u * n_tiles] = e;
        tiles[2u + 3u * n_tiles] = at + i;
        tiles[3u + 3u * n_tiles] = min(TILE, n - i);
        n_tiles++;
      }
      at += n;
    }
    tiles[0] = n_tiles;
  }
  workgroupBarrier();
  for (var e = lane; e < EXPERTS; e += WG) {
    var at = start[e];
    for (var p = 0u; p < n_pairs; p++) {
      if (chosen[p] == e) {
        order[at] = p;
        at++;
      }
    }
  }
}
