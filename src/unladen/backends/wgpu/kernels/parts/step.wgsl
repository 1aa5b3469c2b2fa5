// What changes from step to step: one array of words, packed for each step. The first words say how
// large the step is and where the arrays of the batch begin.
@group(0) @binding(0) var<storage, read> step: array<i32>;

const N_TOKENS = 0u;
const N_OUTPUTS = 1u;
const N_SEQS = 2u;
const TOKENS = 3u;
const POSITIONS = 4u;
const SEQ_OF = 5u;
const Q_START = 6u;
const KV_LEN = 7u;
const OUT_ROWS = 8u;
const BLOCK_TABLE = 9u;
const BLOCKS_PER_SEQ = 10u;
const TILES = 11u;
const N_SPLITS = 12u;
const STATE_IN = 13u;
const STATE_OUT = 14u;
const ROPE_TABLES = 15u;

// Entry i of the array whose place is in word `which`.
fn batch(which: u32, i: u32) -> i32 {
  return step[u32(step[which]) + i];
}

// The number of rows: of tokens, or of outputs (which = N_TOKENS or N_OUTPUTS).
fn n_rows(which: u32) -> u32 {
  return u32(step[which]);
}

// The block of the cache that holds position p of sequence seq.
fn cache_block(seq: u32, p: u32, block_tokens: u32) -> u32 {
  return u32(batch(BLOCK_TABLE, seq * u32(step[BLOCKS_PER_SEQ]) + p / block_tokens));
}
