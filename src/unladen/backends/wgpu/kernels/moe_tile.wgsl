#use step tile exp activation moe_unit
// Multiplies one expert with up to TILE of the rows that chose it (see moe_group); each pair gets a
// result. With HIDDEN it is the unit of a token's row (see moe_hidden), else down x of a pair's
// row.
@group(1) @binding(5) var<storage, read_write> y: array<f32>;
@group(1) @binding(6) var<storage, read_write> order: array<u32>;
@group(1) @binding(8) var<storage, read_write> tiles: array<u32>;

#if INT_DOT
var<workgroup> work: vec3u;
#end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  if (lane == 0u) {
    let at = 1u + 3u * id.z;
    let expert = tiles[at] - routing.first_expert;
    let is_here = id.z < tiles[0] && expert < routing.n_experts;
    let mine = select(vec3u(), vec3u(expert, tiles[at + 1u], tiles[at + 2u]), is_here);
#if INT_DOT
    work = mine;
#else
    // Tiles of float32 fill all the memory that every device has. These numbers are exact there.
    x_tile[0] = vec4f(vec3f(mine), 0.0);
#end
  }
  // A tile: expert (counted from those that the bindings hold), first place in `order`, number of
  // pairs.
#if INT_DOT
  let tile = workgroupUniformLoad(&work);
#else
  let tile = vec3u(workgroupUniformLoad(&x_tile[0]).xyz);
#end
  if (tile.z == 0u) { return; }
  let first = (id.x + id.y * groups.x) * TILE;
  let w_row = row_of(tile.x, min(first + lane / 4u, m.n_out - 1u));
  let pair = order[tile.y + min(lane / 4u, tile.z - 1u)];
#if HIDDEN
  let x_row = pair / routing.n_used * m.n_in;
#else
  let x_row = pair * m.n_in;
#end
  multiply(lane, w_row, x_row);
#if SECOND
  let gate = acc;
  acc = array<vec4f, 4>();
  which = 1u;
  multiply(lane, w_row + routing.up_first * m.row_bytes, x_row);
#end
  for (var n = 0u; n < 4u; n++) {
    let k = lane / 16u + 16u * n;
    if (k < tile.z) {
      let mine = order[tile.y + k];
      for (var r = 0u; r < 4u; r++) {
        let row = first + lane % 16u + 16u * r;
        if (row >= m.n_out) { continue; }
        var value = acc[r][n];
#if HIDDEN
        var g = 0.0;
#if SECOND
        g = gate[r][n];
#end
        value = unit(g, value, mine, tile.x + routing.first_expert, row);
#end
        y[mine * m.n_out + row] = value;
      }
    }
  }
}
