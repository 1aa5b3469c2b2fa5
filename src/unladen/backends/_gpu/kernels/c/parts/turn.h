#bind in float table
// Rotates pairs of a head's columns. `params` has n_rot, neox, and `first`, the first column of a
// head that is rotated; `table` has the cosine and sine of each pair.

// For column d of a head: the distance to the other column of its pair, and the factors of both.
typedef struct {
  int other;
  float own, partner;
} Turn;

// The element of the table that is the cosine of the pair of column d; its sine is the next one.
FN u32 turn_at(ARGS, u32 t, u32 d) {
  const u32 half_rot = params.n_rot / 2u;
  const u32 pair = params.neox ? d - (d >= half_rot ? half_rot : 0u) : d / 2u;
  return t * params.n_rot + 2u * pair;
}

FN Turn turn_of(ARGS, u32 t, u32 d) {
  const u32 half_rot = params.n_rot / 2u;
  const int is_second = params.neox ? d >= half_rot : d % 2u == 1u;
  const int distance = params.neox ? (int)half_rot : 1;
  const u32 at = turn_at(args, t, d);
  Turn by;
  by.other = is_second ? -distance : distance;
  by.own = table[at];
  by.partner = is_second ? table[at + 1u] : -table[at + 1u];
  return by;
}
