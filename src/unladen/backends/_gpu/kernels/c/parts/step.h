// The step's words: one array, written for each step. Its header has the size of the step and the
// words where the arrays of the batch begin. The numbers of the header's words are constants.
#bind in int step
#words

// Entry i of the array whose place is in word `which`.
FN int batch(ARGS, u32 which, u32 i) { return step[(u32)step[which] + i]; }

// The number of rows: of tokens, or of outputs (which = N_TOKENS or N_OUTPUTS).
FN u32 n_rows(ARGS, u32 which) { return (u32)step[which]; }

// The block of the cache that holds position p of sequence seq, for a layer whose blocks begin at a
// column of the table.
FN u32 cache_block(ARGS, u32 seq, u32 column, u32 p, u32 block_tokens) {
  const u32 row = seq * (u32)step[BLOCK_TABLE_COLS];
  return (u32)batch(args, BLOCK_TABLE, row + column + p / block_tokens);
}
