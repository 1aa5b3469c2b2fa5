#use step exp
// One row for each group of tokens: see PoolTokens in the graph's ops. A thread takes a channel of
// a sequence.
struct Params {
  ratio: u32,
  n_groups: u32,
  width: u32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> scores: array<f32>;
@group(1) @binding(3) var<storage, read> place: array<f32>;
@group(1) @binding(4) var<storage, read_write> slots: array<f32>;
@group(1) @binding(5) var<storage, read_write> y: array<f32>;

// Where the state holds values (kind 0) or scores (kind 1) of the token at p for group g.
fn kept(slot: u32, kind: u32, p: u32, g: u32, c: u32) -> u32 {
  let n = params.n_groups * params.ratio;
  return (((slot * 2u + kind) * n + p % n) * params.n_groups + g) * params.width + c;
}

// Tokens of an earlier group have earlier columns.
fn group(p: u32, end: u32) -> u32 {
  return params.n_groups - 1u - (end - p) / params.ratio;
}

fn score(slot: u32, p: u32, end: u32, c: u32) -> f32 {
  let g = group(p, end);
  return slots[kept(slot, 1u, p, g, c)]
       + place[(p % params.ratio * params.n_groups + g) * params.width + c];
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let c = id.x;
  if (c >= params.width || id.y >= n_rows(N_SEQS)) { return; }
  let n = params.n_groups * params.ratio;
  let to = u32(batch(STATE_OUT, id.y));
  let source = batch(STATE_IN, id.y);
  for (var kind = 0u; kind < 2u; kind++) {
    for (var p = 0u; p < n; p++) {
      for (var g = 0u; g < params.n_groups; g++) {
        var before = 0.0;
        if (source >= 0) { before = slots[kept(u32(source), kind, p, g, c)]; }
        slots[kept(to, kind, p, g, c)] = before;
      }
    }
  }
  for (var t = u32(batch(Q_START, id.y)); t < u32(batch(Q_START, id.y + 1u)); t++) {
    let end = u32(batch(INDEX, t));
    for (var g = 0u; g < params.n_groups; g++) {
      let from_x = (t * params.n_groups + g) * params.width + c;
      slots[kept(to, 0u, end, g, c)] = x[from_x];
      slots[kept(to, 1u, end, g, c)] = scores[from_x];
    }
    var value = 0.0;
    if ((end + 1u) % params.ratio == 0u) {
      let begin = end + 1u - min(end + 1u, n);
      var top = -3.0e38;
      for (var p = begin; p <= end; p++) { top = max(top, score(to, p, end, c)); }
      var total = 0.0;
      for (var p = begin; p <= end; p++) {
        let w = exp_f32(score(to, p, end, c) - top);
        total += w;
        value += w * slots[kept(to, 0u, p, group(p, end), c)];
      }
      value /= total;
    }
    y[t * params.width + c] = value;
  }
}
