#use bytes quant
// A matrix of blocks, or those of its rows that one binding holds, and the rows it meets.
struct Matrix {
  first_row: u32,
  n_rows: u32,
  n_out: u32,
  n_in: u32,
  row_bytes: u32,
}

@group(1) @binding(0) var<uniform> m: Matrix;
@group(1) @binding(1) var<storage, read> w: array<u32>;
#if SECOND
@group(1) @binding(2) var<storage, read> w1: array<u32>;
var<private> second: bool;
#end
