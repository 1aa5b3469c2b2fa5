#use step
// Sorts the pairs of a token and an expert chosen for it by expert, and cuts each expert's pairs
// into tiles of at most TILE. tiles[0] counts them; each is an expert, its first place in `order`,
// and a number of pairs. Pairs of one expert stay in the order of the tokens; pairs of experts
// beyond EXPERTS are left out.
//
// A workgroup takes an expert, and a thread a run of pairs. The tiles of expert e begin at tile
// s / TILE + e if s pairs are of experts before it. That is enough room for all tiles before them,
// whatever the numbers of pairs are, so no workgroup waits for another. A tile that isn't needed
// has no pairs.
struct Params {
  n_used: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> chosen: array<u32>;
@group(1) @binding(2) var<storage, read_write> order: array<u32>;
@group(1) @binding(3) var<storage, read_write> tiles: array<u32>;

// For each thread: pairs of the expert up to the end of the thread's run, and of experts before it.
var<workgroup> counted: array<vec2u, WG>;

// Replaces the numbers of each thread by their sums over the threads up to it.
fn add_up(lane: u32) {
  for (var n = 1u; n < WG; n *= 2u) {
    workgroupBarrier();
    var sum = counted[lane];
    if (lane >= n) { sum += counted[lane - n]; }
    workgroupBarrier();
    counted[lane] = sum;
  }
  workgroupBarrier();
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let e = id.x;
  let n_pairs = n_rows(ROW_KIND) * params.n_used;
  let each = (n_pairs + WG - 1u) / WG;
  let first = min(lane * each, n_pairs);
  let end = min(first + each, n_pairs);
  var mine = vec2u();
  for (var p = first; p < end; p++) {
    mine += select(vec2u(), vec2u(1u), vec2<bool>(chosen[p] == e, chosen[p] < e));
  }
  counted[lane] = mine;
  add_up(lane);
  let all = counted[WG - 1u];
  var at = all.y + counted[lane].x - mine.x;
  for (var p = first; p < end; p++) {
    if (chosen[p] == e) {
      order[at] = p;
      at++;
    }
  }
  let first_tile = all.y / TILE + e;
  let n_tiles = (all.x + all.y) / TILE + e + 1u - first_tile;
  for (var i = lane; i < n_tiles; i += WG) {
    let start = min(i * TILE, all.x);
    tiles[1u + 3u * (first_tile + i)] = e;
    tiles[2u + 3u * (first_tile + i)] = all.y + start;
    tiles[3u + 3u * (first_tile + i)] = min(TILE, all.x - start);
  }
  if (e == EXPERTS - 1u && lane == 0u) { tiles[0] = first_tile + n_tiles; }
}
