#use bias
// Stores a product. `which` is the number of the matrix.
#bind out float y
#if MATRICES
#bind out float y1
#if W2
#bind out float y2
#end
#end
#if RESIDUAL
#bind in float residual
#end

FN float with_residual(ARGS, float value, u32 i) {
#if RESIDUAL
  return value + residual[i];
#else
  return value;
#end
}

FN void put(ARGS, u32 which, float value, u32 i) {
#if MATRICES
  if (which == 1u) {
    y1[i] = value;
    return;
  }
#if W2
  if (which == 2u) {
    y2[i] = value;
    return;
  }
#end
#end
  y[i] = value;
}

// Adds what was in the residual stream to a product and stores it.
FN void store(ARGS, u32 which, float value, u32 i) {
  put(args, which, with_residual(args, value, i), i);
}
