#use step order
// The k largest numbers of each row, in rounds. A workgroup sorts TILE numbers and keeps the best
// k; the next round takes what all of a row's workgroups kept, until one workgroup is left.
struct Params {
  n: u32,
  n_tiles: u32,
  k: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
#if FIRST
@group(1) @binding(1) var<storage, read_write> x: array<u32>;
#else
@group(1) @binding(1) var<storage, read_write> x: array<vec2u>;
#end
#if LAST
@group(1) @binding(2) var<storage, read_write> places: array<u32>;
@group(1) @binding(3) var<storage, read_write> y: array<u32>;
#else
@group(1) @binding(2) var<storage, read_write> kept: array<vec2u>;
#end

var<workgroup> tile: array<vec2u, TILE>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  for (var i = lane; i < TILE; i += WG) {
    let at = id.x * TILE + i;
    tile[i] = NOTHING;
    if (at < params.n) {
#if FIRST
      tile[i] = vec2u(key_of(x[id.y * params.n + at]), at);
#else
      tile[i] = x[id.y * params.n + at];
#end
    }
  }
  workgroupBarrier();
  // The bitonic sorting network (K. Batcher, "Sorting networks and their applications", 1968).
  for (var size = 2u; size <= TILE; size *= 2u) {
    for (var half = size / 2u; half > 0u; half /= 2u) {
      for (var pair = lane; pair < TILE / 2u; pair += WG) {
        let i = 2u * pair - pair % half;
        let a = tile[i];
        let b = tile[i + half];
        if (is_before(b, a) == ((i & size) == 0u)) {
          tile[i] = b;
          tile[i + half] = a;
        }
      }
      workgroupBarrier();
    }
  }
  for (var i = lane; i < params.k; i += WG) {
    let to = (id.y * params.n_tiles + id.x) * params.k + i;
#if LAST
    places[to] = tile[i].y;
    y[to] = bits_of(tile[i].x);
#else
    kept[to] = tile[i];
#end
  }
}
