// Adds bias and residual to a product and stores it. `which` is the number of the matrix.
#bind out float y
#if BIAS
#bind in float bias
#end
#if BIAS1
#bind in float bias1
#end
#if BIAS2
#bind in float bias2
#end
#if MATRICES
#bind out float y1
#if W2
#bind out float y2
#end
#end
#if RESIDUAL
#bind in float residual
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

FN void store(ARGS, u32 which, float value, u32 i) {
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
#if RESIDUAL
  y[i] = value + residual[i];
#else
  y[i] = value;
#end
}
