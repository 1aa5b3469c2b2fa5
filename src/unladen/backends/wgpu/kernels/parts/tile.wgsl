#use matrix columns
#if INT_DOT
#use coded_tile rounding
#else
#use plain_tile
#end
// Products in tiles of TILE rows of w by TILE rows of x by four units of a block, 32 columns. The
// order of columns doesn't matter, if it is the same for w and x. Each weight is decoded once for
// TILE rows of x. A workgroup has 16 by 16 threads, each with 4 by 4 results.
const_assert WG == 256u && TILE == 64u;
// acc[r][n] += row i + 16 r of the tile of w times row j + 16 n of that of x, for the thread
// lane = i + 16 j.
var<private> acc: array<vec4f, 4>;

// Where four columns of a row of a tile lie: eight neighbouring rows, which are read together, lie
// in different banks.
fn place(row: u32, four: u32) -> u32 {
  return row * 8u + (four ^ (row & 7u));
}
