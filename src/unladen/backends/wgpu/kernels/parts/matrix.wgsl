#use bytes quant
// A matrix of blocks, or those of its rows that one binding holds.
struct Matrix {
  first_row: u32,
  n_rows: u32,
  n_out: u32,
  n_in: u32,
  @size(16) row_bytes: u32,
}

#if MATRICES
// Several matrices of one format meet the same x; a workgroup takes rows of one.
@group(1) @binding(0) var<uniform> matrices: array<Matrix, MATRICES>;
var<private> m: Matrix;
#else
@group(1) @binding(0) var<uniform> m: Matrix;
#end
#if QUADS
alias Bytes = vec4u;
#else
alias Bytes = u32;
#end
@group(1) @binding(1) var<storage, read> w: array<Bytes>;
#if W1
@group(1) @binding(2) var<storage, read> w1: array<Bytes>;
#end
#if W2
@group(1) @binding(9) var<storage, read> w2: array<Bytes>;
#end
// Which matrix is read: 0 for w, 1 for w1, 2 for w2.
var<private> which: u32;
