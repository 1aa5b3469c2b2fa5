// Rotates pairs of a head's columns. `params` has n_rot, neox, and `first`, the first column of a
// head that is rotated; `table` has the cosine and sine of each pair.

// For column d of a head: the distance to the other column of its pair, and the factors of both.
struct Turn {
  other: i32,
  own: f32,
  partner: f32,
}

fn turn(t: u32, d: u32) -> Turn {
  let half_rot = params.n_rot / 2u;
  var pair = d / 2u;
  var is_second = d % 2u == 1u;
  var distance = 1;
  if (params.neox != 0u) {
    is_second = d >= half_rot;
    pair = select(d, d - half_rot, is_second);
    distance = i32(half_rot);
  }
  let at = t * params.n_rot + 2u * pair;
  return Turn(select(distance, -distance, is_second), table[at],
              select(-table[at + 1u], table[at + 1u], is_second));
}
