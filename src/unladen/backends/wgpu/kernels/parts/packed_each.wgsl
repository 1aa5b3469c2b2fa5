// Loads the units of a group one by one. Formats that can load them together do it themselves.

fn packed_group(at: u32, first: u32) -> array<vec2u, GROUP> {
  var found: array<vec2u, GROUP>;
  for (var k = 0u; k < GROUP; k++) { found[k] = packed(at, first + k); }
  return found;
}
