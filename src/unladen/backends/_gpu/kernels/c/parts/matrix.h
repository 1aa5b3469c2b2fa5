#use bytes quant
// A matrix of blocks, or those of its rows that one argument holds.
typedef struct {
  u32 first_row, n_rows, n_out, n_in, row_bytes;
} Matrix;

#if MATRICES
// Several matrices of one format meet the same x; a workgroup takes rows of one.
typedef struct {
  Matrix m;
  u32 pad[3];
} Slot;
typedef struct {
  Slot each[MATRICES];
} Matrices;

#bind struct Matrices matrices
#else
#bind struct Matrix m
#end
#bind in u32 w
#if W1
#bind in u32 w1
#end
#if W2
#bind in u32 w2
#end

// The bytes of one of the matrices: 0 for w, 1 for w1, 2 for w2.
FN Bytes matrix_bytes(ARGS, u32 which) {
#if W2
  if (which == 2u) return w2;
#end
#if W1
  if (which == 1u) return w1;
#end
  return w;
}

// The codes of unit u of block `block` of a row of n_in columns, which begins at byte `row`. With
// RAGGED the last block may be cut off, unless rows are WHOLE blocks and only x is ragged.
FN Codes row_codes(ARGS, Bytes b, u32 row, u32 block, u32 u, u32 n_in) {
#if RAGGED
#if WHOLE
  return codes(args, b, row + block * BLOCK_BYTES, u);
#else
  const u32 p = block * BLOCK + unit_at(u);
  return codes_within(b, row + block * BLOCK_BYTES, u, n_in - min_u32(n_in, p));
#end
#else
  return codes(args, b, row + block * BLOCK_BYTES, u);
#end
}
