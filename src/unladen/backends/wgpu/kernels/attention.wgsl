#use step exp cache_rows scoring attending
// softmax(scale q k^T) v over the paged cache, with the online softmax of Milakov and Gimelshein
// (2018). A workgroup of WG threads takes R = TILE_TOKENS * TILE_HEADS query rows that read the
// same key/value head. It walks over the keys, KT at a time: KT threads compute a row's scores,
// then VD threads add up values. It leaves out tiles of keys that no row sees. With SPLIT, several
// workgroups share the keys and attention_join adds up their results.

const ROW_LANES = WG / KT;
const ROWS_EACH = (R + ROW_LANES - 1u) / ROW_LANES;
const DIM_LANES = min(VD, WG);
const DIMS_EACH = (VD + WG - 1u) / WG;
const ROW_GROUPS = min(R, WG / DIM_LANES);
const ACC_ROWS = (R + ROW_GROUPS - 1u) / ROW_GROUPS;

var<workgroup> q_tile: array<vec4f, R * KD / 4u>;
var<workgroup> weight: array<f32, R * KT>;
var<workgroup> largest: array<f32, R * KT>;
var<workgroup> row_largest: array<f32, R>;
var<workgroup> value_at: array<u32, KT>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let first = u32(batch(TILES, 3u * id.x));
  let n_tile_tokens = u32(batch(TILES, 3u * id.x + 1u));
  let seq = u32(batch(TILES, 3u * id.x + 2u));
  let group = params.n_heads / params.n_kv_heads;
  let chunks = (group + TILE_HEADS - 1u) / TILE_HEADS;
  let kv_head = id.y / chunks;
  let first_in_group = id.y % chunks * TILE_HEADS;

  for (var i = lane; i < R * KD / 4u; i += WG) {
    let r = i / (KD / 4u);
    let head = kv_head * group + min(first_in_group + r % TILE_HEADS, group - 1u);
    let t = first + min(r / TILE_HEADS, n_tile_tokens - 1u);
    q_tile[i] = q[(t * params.n_heads + head) * (KD / 4u) + i % (KD / 4u)];
  }
  if (lane < R) { row_largest[lane] = LOWEST; }
#if SINKS
  // A sink counts as a key without a value, in the first share.
  if (lane < R && id.z == 0u) {
    row_largest[lane] = sinks[kv_head * group + min(first_in_group + lane % TILE_HEADS, group - 1u)];
  }
#end
  workgroupBarrier();

  let n_keys = end_key(last_key(first + n_tile_tokens - 1u), seq);
  let first_tile = first_key(u32(batch(INDEX, first))) / KT;
  let end_tile = (n_keys + KT - 1u) / KT;
  // Shares differ by one tile at most.
  let each = (end_tile - first_tile) / groups.z;
  let more = (end_tile - first_tile) % groups.z;
  let begin = first_tile + id.z * each + min(id.z, more);
  let end = begin + each + select(0u, 1u, id.z < more);
  let key_lane = lane % KT;
  let row_lane = lane / KT;
  let row_group = lane / DIM_LANES;
  let dim = lane % DIM_LANES;
  var acc: array<f32, ACC_ROWS * DIMS_EACH>;
  var sum: array<f32, ACC_ROWS>;
#if SINKS
  for (var a = 0u; a < ACC_ROWS; a++) { sum[a] = select(0.0, 1.0, id.z == 0u); }
#end
  for (var tile = begin; tile < end; tile++) {
    let key = tile * KT + key_lane;
    let known = min(key, n_keys - 1u);
    let block = cache_block(seq, FIRST_COLUMN, known, params.block_tokens);
    let slot = (block * params.n_kv_heads + kv_head) * params.block_tokens
             + known % params.block_tokens;
    if (row_lane == 0u) { value_at[key_lane] = slot * params.v_row_bytes; }
    // Set explicitly: some compilers clear a variable of a loop's body only once.
    var score: array<f32, ROWS_EACH> = array<f32, ROWS_EACH>();
    for (var d = 0u; d < KD / 4u; d++) {
      let k = key_four(slot * params.k_row_bytes, 4u * d);
      for (var e = 0u; e < ROWS_EACH; e++) {
        score[e] += dot(q_tile[min(row_lane + e * ROW_LANES, R - 1u) * (KD / 4u) + d], k);
      }
    }
    for (var e = 0u; e < ROWS_EACH; e++) {
      let r = row_lane + e * ROW_LANES;
      let t = first + min(r / TILE_HEADS, n_tile_tokens - 1u);
      let p = u32(batch(INDEX, t));
      let head = kv_head * group + min(first_in_group + r % TILE_HEADS, group - 1u);
      let seen = key >= first_key(p) && key < end_key(last_key(t), seq);
      score[e] = select(LOWEST, scored(score[e], head, p, key), seen);
      if (r < R) { largest[r * KT + key_lane] = score[e]; }
    }
    workgroupBarrier();
    for (var h = KT / 2u; h > 0u; h /= 2u) {
      for (var e = 0u; e < ROWS_EACH; e++) {
        let at = (row_lane + e * ROW_LANES) * KT + key_lane;
        if (key_lane < h && at < R * KT) { largest[at] = max(largest[at], largest[at + h]); }
      }
      workgroupBarrier();
    }
    for (var e = 0u; e < ROWS_EACH; e++) {
      let r = row_lane + e * ROW_LANES;
      if (r < R) {
        let top = max(largest[r * KT], row_largest[r]);
        weight[r * KT + key_lane] = weight_of(score[e], top);
      }
    }
    workgroupBarrier();
    if (row_group < ROW_GROUPS) {
      for (var a = 0u; a < ACC_ROWS; a++) {
        let r = min(row_group + a * ROW_GROUPS, R - 1u);
        let before = row_largest[r];
        let shrink = exp_f32(before - max(largest[r * KT], before));
        sum[a] *= shrink;
        for (var e = 0u; e < DIMS_EACH; e++) { acc[a * DIMS_EACH + e] *= shrink; }
      }
      for (var k = 0u; k < min(KT, n_keys - tile * KT); k++) {
        for (var e = 0u; e < DIMS_EACH; e++) {
          let v = value_one(value_at[k], min(dim + e * WG, VD - 1u));
          for (var a = 0u; a < ACC_ROWS; a++) {
            acc[a * DIMS_EACH + e] += v * weight[min(row_group + a * ROW_GROUPS, R - 1u) * KT + k];
          }
        }
        for (var a = 0u; a < ACC_ROWS; a++) {
          sum[a] += weight[min(row_group + a * ROW_GROUPS, R - 1u) * KT + k];
        }
      }
    }
    workgroupBarrier();
    if (lane < R) { row_largest[lane] = max(row_largest[lane], largest[lane * KT]); }
    workgroupBarrier();
  }

  for (var a = 0u; a < ACC_ROWS; a++) {
    let r = row_group + a * ROW_GROUPS;
    let in_group = first_in_group + r % TILE_HEADS;
    if (row_group >= ROW_GROUPS || r >= R || in_group >= group
        || r / TILE_HEADS >= n_tile_tokens) { continue; }
    let row = (first + r / TILE_HEADS) * params.n_heads + kv_head * group + in_group;
    for (var e = 0u; e < DIMS_EACH; e++) {
      let d = dim + e * WG;
      if (d >= VD) { continue; }
#if SPLIT
      y[(row * groups.z + id.z) * (VD + 2u) + d] = acc[a * DIMS_EACH + e];
#else
      y[row * VD + d] = acc[a * DIMS_EACH + e] / sum[a];
#end
    }
#if SPLIT
    if (dim == 0u) {
      let at = (row * groups.z + id.z) * (VD + 2u) + VD;
      y[at] = row_largest[r];
      y[at + 1u] = sum[a];
    }
#end
  }
}
