#use step exp cache_runs scoring attending
// softmax(scale q k^T) v over the paged cache, with the online softmax of Milakov and Gimelshein
// (2018). Reads several words of the cache at once, so rows must be multiples of that. A workgroup
// takes R = TILE_TOKENS * TILE_HEADS query rows that read the same key/value head. It walks over
// its share of the keys, KT at a time: first a thread computes the scores of a key, then a thread
// adds up four columns of every SLICES-th value. With SPLIT, several workgroups share the keys of a
// token and attention_join adds up their results.

// Rows in groups of four; the last group may have fewer.
const QUARTERS = (R + 3u) / 4u;
const FOURS = VD / 4u;
const LANES = min(FOURS, KT);
const EACH = (FOURS + KT - 1u) / KT;
const SLICES = KT / LANES;

var<workgroup> q_tile: array<vec4f, R * KD / 4u>;
// The index of each token, and the last key that it sees.
var<workgroup> index: array<u32, TILE_TOKENS>;
var<workgroup> last: array<u32, TILE_TOKENS>;
var<workgroup> scores: array<vec4f, R * KT / 4u>;
// The largest score of each quarter of a row.
var<workgroup> largest: array<vec4f, R>;
// [key][row]
var<workgroup> weight: array<vec4f, KT * QUARTERS>;
var<workgroup> value_at: array<u32, KT>;
var<workgroup> sums: array<vec4f, KT * EACH>;
var<workgroup> counted: array<f32, KT>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let first = u32(batch(TILES, 3u * id.x));
  let n_tokens = u32(batch(TILES, 3u * id.x + 1u));
  let seq = u32(batch(TILES, 3u * id.x + 2u));
  let group = params.n_heads / params.n_kv_heads;
  let chunks = (group + TILE_HEADS - 1u) / TILE_HEADS;
  let kv_head = id.y / chunks;
  let first_in_group = id.y % chunks * TILE_HEADS;
  let first_head = kv_head * group + first_in_group;
  let n_heads = min(TILE_HEADS, group - first_in_group);
  if (lane < TILE_TOKENS) {
    index[lane] = u32(batch(INDEX, first + min(lane, n_tokens - 1u)));
    last[lane] = last_key(first + min(lane, n_tokens - 1u));
  }
  for (var i = lane; i < R * KD / 4u; i += KT) {
    let r = i / (KD / 4u);
    let row = (first + min(r / TILE_HEADS, n_tokens - 1u)) * params.n_heads + first_head
            + min(r % TILE_HEADS, n_heads - 1u);
    q_tile[i] = q[row * (KD / 4u) + i % (KD / 4u)];
  }
  workgroupBarrier();

  // From the step's words: what bounds a loop with barriers must be the same in all threads, and
  // compilers know that of a workgroup's memory only where it is read by workgroupUniformLoad.
  let n_keys = end_key(last_key(first + n_tokens - 1u), seq);
  let first_tile = first_key(u32(batch(INDEX, first))) / KT;
  let end_tile = (n_keys + KT - 1u) / KT;
  // Shares differ by one tile at most.
  let each = (end_tile - first_tile) / groups.z;
  let more = (end_tile - first_tile) % groups.z;
  let begin = first_tile + id.z * each + min(id.z, more);
  let end = begin + each + select(0u, 1u, id.z < more);
  let slice = lane / LANES;
  let column = lane % LANES;
  var top: array<f32, R>;
  var sum: array<vec4f, QUARTERS>;
  var acc: array<vec4f, R * EACH>;
  for (var r = 0u; r < R; r++) {
    top[r] = LOWEST;
#if SINKS
    // A sink counts as a key without a value, in the first share.
    if (id.z == 0u) {
      top[r] = sinks[first_head + min(r % TILE_HEADS, n_heads - 1u)];
      sum[r / 4u][r % 4u] = select(0.0, 1.0, slice == 0u);
    }
#end
  }
  for (var tile = begin; tile < end; tile++) {
    let key = tile * KT + lane;
    let known = min(key, n_keys - 1u);
    let block = cache_block(seq, FIRST_COLUMN, known, params.block_tokens);
    let slot = (block * params.n_kv_heads + kv_head) * params.block_tokens
             + known % params.block_tokens;
    value_at[lane] = slot * params.v_row_bytes;
    // Set explicitly: some compilers clear a variable of a loop's body only once.
    var score: array<f32, R> = array<f32, R>();
    for (var d = 0u; d < KD / 8u; d++) {
      let k = key_eight(slot * params.k_row_bytes, 8u * d);
      for (var r = 0u; r < R; r++) {
        let at = r * (KD / 4u) + 2u * d;
        score[r] += dot(q_tile[at], k[0]) + dot(q_tile[at + 1u], k[1]);
      }
    }
    for (var r = 0u; r < R; r++) {
      let p = index[r / TILE_HEADS];
      let seen = key >= first_key(p) && key < end_key(last[r / TILE_HEADS], seq);
      let head = first_head + min(r % TILE_HEADS, n_heads - 1u);
      score[r] = select(LOWEST, scored(score[r], head, p, key), seen);
      scores[(r * KT + lane) / 4u][lane % 4u] = score[r];
    }
    workgroupBarrier();
    for (var i = lane; i < 4u * R; i += KT) {
      var best = vec4f(LOWEST);
      for (var j = 0u; j < KT / 16u; j++) { best = max(best, scores[i * (KT / 16u) + j]); }
      largest[i / 4u][i % 4u] = max(max(best.x, best.y), max(best.z, best.w));
    }
    workgroupBarrier();
    for (var h = 0u; h < QUARTERS; h++) {
      var four = vec4f();
      for (var c = 0u; c < 4u; c++) {
        let r = 4u * h + c;
        if (r < R) {
          let best = largest[r];
          let now = max(max(max(best.x, best.y), max(best.z, best.w)), top[r]);
          let shrink = exp_f32(top[r] - now);
          top[r] = now;
          sum[h][c] *= shrink;
          for (var e = 0u; e < EACH; e++) { acc[r * EACH + e] *= shrink; }
          four[c] = weight_of(score[r], now);
        }
      }
      weight[lane * QUARTERS + h] = four;
    }
    workgroupBarrier();
    if (slice < SLICES) {
      for (var k = slice; k < KT; k += SLICES) {
        for (var e = 0u; e < EACH; e++) {
          let v = value_four(value_at[k], 4u * min(column + e * KT, FOURS - 1u));
          for (var h = 0u; h < QUARTERS; h++) {
            let four = weight[k * QUARTERS + h];
            if (e == 0u) { sum[h] += four; }
            for (var c = 0u; c < 4u; c++) {
              if (4u * h + c < R) { acc[(4u * h + c) * EACH + e] += v * four[c]; }
            }
          }
        }
      }
    }
    workgroupBarrier();
  }

  for (var r = 0u; r < R; r++) {
    for (var e = 0u; e < EACH; e++) { sums[e * KT + lane] = acc[r * EACH + e]; }
    counted[lane] = sum[r / 4u][r % 4u];
    workgroupBarrier();
    if (slice == 0u && r % TILE_HEADS < n_heads && r / TILE_HEADS < n_tokens) {
      var total = 0.0;
      for (var s = 0u; s < SLICES; s++) { total += counted[s * LANES]; }
      let row = (first + r / TILE_HEADS) * params.n_heads + first_head + r % TILE_HEADS;
      for (var e = 0u; e < EACH; e++) {
        let d = column + e * KT;
        if (d >= FOURS) { continue; }
        var value = vec4f();
        for (var s = 0u; s < SLICES; s++) { value += sums[e * KT + s * LANES + column]; }
#if SPLIT
        let at = (row * groups.z + id.z) * (VD + 2u);
#else
        let at = row * VD;
        value /= total;
#end
        for (var c = 0u; c < 4u; c++) { y[at + 4u * d + c] = value[c]; }
      }
#if SPLIT
      if (lane == 0u) {
        let at = (row * groups.z + id.z) * (VD + 2u) + VD;
        y[at] = top[r];
        y[at + 1u] = total;
      }
#end
    }
    workgroupBarrier();
  }
}
