// The step's words: one array, written for each step. Its header has the size of the step and the
// words where the arrays of the batch begin. The numbers of the header's words are constants.
@group(0) @binding(0) var<storage, read> step: array<i32>;

#words

// Entry i of the array whose place is in word `which`.
fn batch(which: u32, i: u32) -> i32 {
  return step[u32(step[which]) + i];
}

// The number of rows: of tokens, or of outputs (which = N_TOKENS or N_OUTPUTS).
fn n_rows(which: u32) -> u32 {
  return u32(step[which]);
}

// The block of the cache that holds position p of sequence seq, for a layer whose blocks begin at a
// column of the table.
fn cache_block(seq: u32, column: u32, p: u32, block_tokens: u32) -> u32 {
  return u32(batch(BLOCK_TABLE, seq * u32(step[BLOCK_TABLE_COLS]) + column + p / block_tokens));
}
