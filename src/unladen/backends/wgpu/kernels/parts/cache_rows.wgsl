// Rows of the cache: four numbers of a key, one of a value. K_F32 ... V_Q8_0 name their formats.
@group(1) @binding(1) var<storage, read> keys: array<u32>;
@group(1) @binding(2) var<storage, read> values: array<u32>;

fn key_four(at: u32, d: u32) -> vec4f {
#if K_F32
  let i = (at >> 2u) + d;
  return bitcast<vec4f>(vec4u(keys[i], keys[i + 1u], keys[i + 2u], keys[i + 3u]));
#end
#if K_F16
  let i = (at + 2u * d) >> 2u;
  return vec4f(unpack2x16float(keys[i]), unpack2x16float(keys[i + 1u]));
#end
#if K_Q8_0
  let block = at + d / 32u * 34u;
  let scale = unpack2x16float(keys[block >> 2u] >> ((block & 2u) * 8u)).x;
  let q = block + 2u + d % 32u;
  let shift = (q & 2u) * 8u;
  let bytes = (keys[q >> 2u] >> shift) | ((keys[(q >> 2u) + 1u] << 1u) << (31u - shift));
  return scale * vec4f(unpack4xI8(bytes));
#end
}

fn value_one(at: u32, d: u32) -> f32 {
#if V_F32
  return bitcast<f32>(values[(at >> 2u) + d]);
#end
#if V_F16
  let pair = unpack2x16float(values[(at + 2u * d) >> 2u]);
  return select(pair.x, pair.y, (d & 1u) == 1u);
#end
#if V_Q8_0
  let block = at + d / 32u * 34u;
  let scale = unpack2x16float(values[block >> 2u] >> ((block & 2u) * 8u)).x;
  let q = block + 2u + d % 32u;
  let byte = (values[q >> 2u] >> ((q & 3u) * 8u)) & 255u;
  return scale * f32(extractBits(bitcast<i32>(byte), 0u, 8u));
#end
}
