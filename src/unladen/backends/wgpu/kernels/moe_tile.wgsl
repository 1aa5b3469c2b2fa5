#use step tile
#if SECOND
#use exp activation
#end
// Products of one expert with up to 64 of the rows that chose it (see moe_group), a result for each
// pair: with SECOND act(gate x) * (up x) of a token's row, else down x of a pair's.
struct Routing {
  n_used: u32,
  first_expert: u32,
  n_experts: u32,
}

@group(1) @binding(5) var<storage, read_write> y: array<f32>;
@group(1) @binding(6) var<storage, read_write> order: array<u32>;
@group(1) @binding(7) var<uniform> routing: Routing;
@group(1) @binding(8) var<storage, read_write> tiles: array<u32>;

// Expert (counted from those that the bindings hold), first place in `order`, number of pairs.
var<workgroup> work: vec3u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  if (lane == 0u) {
    let at = 1u + 3u * id.z;
    let expert = tiles[at] - routing.first_expert;
    let is_here = id.z < tiles[0] && expert < routing.n_experts;
    work = select(vec3u(), vec3u(expert, tiles[at + 1u], tiles[at + 2u]), is_here);
  }
  let tile = workgroupUniformLoad(&work);
  if (tile.z == 0u) { return; }
  let first = (id.x + id.y * groups.x) * TILE;
  let w_row = (tile.x * m.n_out + min(first + lane / 4u, m.n_out - 1u)) * m.row_bytes;
  let pair = order[tile.y + min(lane / 4u, tile.z - 1u)];
#if SECOND
  let x_row = pair / routing.n_used * m.n_in;
  multiply(lane, w_row, x_row);
  let gate = acc;
  acc = array<vec4f, 4>();
  which = 1u;
  multiply(lane, w_row, x_row);
  for (var r = 0u; r < 4u; r++) {
    for (var n = 0u; n < 4u; n++) { acc[r][n] *= activate(gate[r][n]); }
  }
#else
  multiply(lane, w_row, pair * m.n_in);
#end
  for (var n = 0u; n < 4u; n++) {
    let k = lane / 16u + 16u * n;
    if (k < tile.z) {
      let to = order[tile.y + k] * m.n_out;
      for (var r = 0u; r < 4u; r++) {
        let row = first + lane % 16u + 16u * r;
        if (row < m.n_out) { y[to + row] = acc[r][n]; }
      }
    }
  }
}
