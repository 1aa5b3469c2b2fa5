#use step order
// y = the place of each row's largest number, or -1. A workgroup takes TILE numbers and leaves the
// best (key, place). With LAST, a workgroup chooses among those of a row.
struct Params {
  n: u32,
  n_tiles: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> tiles: array<vec2u>;
#if LAST
@group(1) @binding(2) var<storage, read_write> y: array<i32>;
#else
@group(1) @binding(2) var<storage, read_write> x: array<u32>;
#end

var<workgroup> found: array<vec2u, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  var best = NOTHING;
#if LAST
  for (var i = lane; i < params.n_tiles; i += WG) {
    let other = tiles[id.y * params.n_tiles + i];
#else
  let end = min((id.x + 1u) * TILE, params.n);
  for (var i = id.x * TILE + lane; i < end; i += WG) {
    let other = vec2u(key_of(x[id.y * params.n + i]), i);
#end
    if (is_before(other, best)) { best = other; }
  }
  found[lane] = best;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (lane < half && is_before(found[lane + half], found[lane])) {
      found[lane] = found[lane + half];
    }
    workgroupBarrier();
  }
  if (lane == 0u) {
#if LAST
    let is_finite = found[0].x < INFINITE && found[0].x > MINUS_INFINITE;
    y[id.y] = select(-1, i32(found[0].y), is_finite);
#else
    tiles[id.y * params.n_tiles + id.x] = found[0];
#end
  }
}
