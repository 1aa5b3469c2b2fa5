#use step dot_rows
#if CACHED
#use cached
#else
#use result
#end
#if SECOND
#use exp activation
#end
// y = x w^T (+ bias) for few rows of x: a workgroup multiplies R rows of w with NT rows of x. With
// SECOND, y = act(x w^T) * (x w1^T). With MATRICES, several matrices meet the same x. With CACHED,
// these are queries, keys and values.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        who: Thread) {
  let lane = who.lane;
  var group = id.x + id.y * groups.x;
#if MATRICES
  for (; which + 1u < MATRICES; which++) {
    let n_groups = (matrices[which].n_rows + R - 1u) / R;
    if (group < n_groups) { break; }
    group -= n_groups;
  }
  m = matrices[which];
#end
  let first = group * R;
  let count = n_rows(ROW_KIND);
  var rows: array<u32, R>;
#if CACHED
  for (var r = 0u; r < R; r++) { rows[r] = min(row_of(group, r), m.n_rows - 1u) * m.row_bytes; }
#else
  for (var r = 0u; r < R; r++) { rows[r] = min(first + r, m.n_rows - 1u) * m.row_bytes; }
#end
  var xs: array<u32, NT>;
  for (var n = 0u; n < NT; n++) { xs[n] = min(id.z * NT + n, count - 1u) * m.n_in; }
  accumulate(lane, 0u, rows, xs, 1.0);
#if SECOND
  which = 1u;
  accumulate(lane, OUT, rows, xs, 1.0);
#end
  finish(who);
#if CACHED
  let slot = lane / NT * 2u;
  let n = lane % NT;
  let token = id.z * NT + n;
  if (slot < R && first + slot < m.n_rows && token < count) { store_two(group, slot, n, token); }
#else
  let row = first + lane / NT;
  let token = id.z * NT + lane % NT;
  if (lane < OUT && row < m.n_rows && token < count) {
    let value = with_bias(totals[lane], m.first_row + row);
#if SECOND
    var up = totals[OUT + lane];
#if BIAS1
    up += bias1[m.first_row + row];
#end
    store(activate(value) * up, token, m.first_row + row);
#else
    store(value, token, m.first_row + row);
#end
  }
#end
}
