// Loads the units of a group one by one. Formats that can load them together do it themselves.

FN void packed_group(ARGS, Bytes b, u32 at, u32 first, PRIVATE u2 *out) {
  for (u32 k = 0u; k < GROUP; k++) out[k] = packed(args, b, at, first + k);
}
