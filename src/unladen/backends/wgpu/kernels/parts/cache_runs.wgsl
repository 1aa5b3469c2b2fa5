// Rows of the cache: eight numbers of a key, four of a value. K_F32 ... V_Q8_0 name their formats;
// rows of floats begin at a multiple of what is read at once.
#if K_Q8_0
@group(1) @binding(1) var<storage, read> keys: array<u32>;
#else
@group(1) @binding(1) var<storage, read> keys: array<vec4u>;
#end
#if V_Q8_0
@group(1) @binding(2) var<storage, read> values: array<u32>;
#end
#if V_F16
@group(1) @binding(2) var<storage, read> values: array<vec2u>;
#end
#if V_F32
@group(1) @binding(2) var<storage, read> values: array<vec4u>;
#end

fn halves(bits: vec2u) -> vec4f {
  return vec4f(unpack2x16float(bits.x), unpack2x16float(bits.y));
}

fn key_eight(at: u32, d: u32) -> array<vec4f, 2> {
#if K_F32
  let i = (at >> 4u) + (d >> 2u);
  return array<vec4f, 2>(bitcast<vec4f>(keys[i]), bitcast<vec4f>(keys[i + 1u]));
#end
#if K_F16
  let bits = keys[(at >> 4u) + (d >> 3u)];
  return array<vec4f, 2>(halves(bits.xy), halves(bits.zw));
#end
#if K_Q8_0
  let block = at + d / 32u * 34u;
  let scale = unpack2x16float(keys[block >> 2u] >> ((block & 2u) * 8u)).x;
  let q = block + 2u + d % 32u;
  let i = q >> 2u;
  let shift = (q & 2u) * 8u;
  let middle = keys[i + 1u];
  let lo = (keys[i] >> shift) | ((middle << 1u) << (31u - shift));
  let hi = (middle >> shift) | ((keys[i + 2u] << 1u) << (31u - shift));
  return array<vec4f, 2>(scale * vec4f(unpack4xI8(lo)), scale * vec4f(unpack4xI8(hi)));
#end
}

fn value_four(at: u32, d: u32) -> vec4f {
#if V_F32
  return bitcast<vec4f>(values[(at >> 4u) + (d >> 2u)]);
#end
#if V_F16
  return halves(values[(at >> 3u) + (d >> 2u)]);
#end
#if V_Q8_0
  let block = at + d / 32u * 34u;
  let scale = unpack2x16float(values[block >> 2u] >> ((block & 2u) * 8u)).x;
  let q = block + 2u + d % 32u;
  let shift = (q & 2u) * 8u;
  let bits = (values[q >> 2u] >> shift) | ((values[(q >> 2u) + 1u] << 1u) << (31u - shift));
  return scale * vec4f(unpack4xI8(bits));
#end
}
