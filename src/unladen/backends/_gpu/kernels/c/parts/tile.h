#use matrix columns
#if INT_DOT
#use coded_tile
#else
#use plain_tile
#end
// Products in tiles of TILE rows of w by TILE rows of x by four units of a block, 32 columns. The
// order of columns doesn't matter, if it is the same for w and x. Each weight is decoded once for
// TILE rows of x. A workgroup has 16 by 16 threads, each with 4 by 4 results: acc[4 r + n] is of
// row i + 16 r of the tile of w and row j + 16 n of that of x, for the thread LANE = i + 16 j.

// Where four columns of a row of a tile lie: eight neighbouring rows, which are read together, lie
// in different banks.
FN u32 place(u32 row, u32 four) { return row * 8u + (four ^ (row & 7u)); }
