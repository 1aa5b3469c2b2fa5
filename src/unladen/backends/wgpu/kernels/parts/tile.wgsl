#use matrix columns
#if INT_DOT
#use coded_tile rounding
#else
#use plain_tile
#end
// Products in tiles of TILE rows of w by TILE rows of x by 32 columns, or rather by four units of a
// block: the order of the columns doesn't matter where it is the same in both. Each weight is
// decoded once for TILE rows of x. A workgroup has 256 threads.
const TILE = 64u;
// acc[r][n] += row i + 16 r of the tile of w times row j + 16 n of that of x, for the thread
// lane = i + 16 j.
var<private> acc: array<vec4f, 4>;

// Four columns of a row of a tile; rows are shuffled so that eight neighbours, read together, lie
// in different banks.
fn place(row: u32, four: u32) -> u32 {
  return row * 8u + (four ^ (row & 7u));
}
