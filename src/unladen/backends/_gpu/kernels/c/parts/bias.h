// Adds bias to a product. `which` is the number of the matrix.
#if BIAS
#bind in float bias
#end
#if BIAS1
#bind in float bias1
#end
#if BIAS2
#bind in float bias2
#end

FN float with_bias(ARGS, u32 which, float value, u32 row) {
#if MATRICES
#if BIAS1
  if (which == 1u) return value + bias1[row];
#end
#if BIAS2
  if (which == 2u) return value + bias2[row];
#end
  if (which != 0u) return value;
#end
#if BIAS
  return value + bias[row];
#else
  return value;
#end
}
