#use matrix
#if CODED
#bind in u4 x_codes
#bind in f2 x_scales
#else
#use columns
#if INT_DOT
#use rounding
#end
#end
// A workgroup of WG threads multiplies R rows of blocks with NT rows of x. A thread takes every
// WG-th group of units; the threads' partial sums are added in a fixed order.
#define OUT (R * NT)
// What a thread holds: addresses of rows, and sums of a matrix. The last address of n rows is
// PER_ADDRESS rows before their end.
#define ADDRESSES R
#define XS NT
#define X_ROW(i) (i)
#define PER_ADDRESS 1u
#define PARTIALS OUT
#if SUBGROUPS
// No subgroup has fewer than four threads.
#shared float sums (WG / 4u * ALL_OUT)
#else
#shared float sums (WG * ALL_OUT)
#end
#shared float totals ALL_OUT

#if INT_DOT
// The columns of x for a group of units, rounded to int8: lo and hi have a scale each, and the sum
// of their columns before rounding. With CODED, `norm_quantize` rounded them.
typedef struct {
  u2 codes[GROUP];
  f2 scale, sum;
} Activations;

#if CODED
FN void activations(ARGS, u32 n_in, u32 at, u32 p, u32 first, PRIVATE Activations *out) {
  const u32 run = (at + p + unit_at(first)) / 16u;
  const u4 lo = x_codes[run], hi = x_codes[run + SPAN / 16u];
  const f2 lo_scale = x_scales[run], hi_scale = x_scales[run + SPAN / 16u];
  store_group(lo, hi, out->codes);
  out->scale = F2(lo_scale.x, hi_scale.x);
  out->sum = F2(lo_scale.y, hi_scale.y);
}
#else
FN void activations(ARGS, u32 n_in, u32 at, u32 p, u32 first, PRIVATE Activations *out) {
  f4 lo[GROUP], hi[GROUP];
  float largest_lo = 0.0f, largest_hi = 0.0f;
  out->sum = F2(0.0f, 0.0f);
  for (u32 k = 0u; k < GROUP; k++) {
    lo[k] = columns(args, n_in, at, p + unit_at(first + k));
    hi[k] = columns(args, n_in, at, p + unit_at(first + k) + SPAN);
    largest_lo = larger(largest_lo, largest_of(lo[k]));
    largest_hi = larger(largest_hi, largest_of(hi[k]));
    if (SHIFTED) {
      out->sum = out->sum + F2(f4_dot(lo[k], F4_ALL(1.0f)), f4_dot(hi[k], F4_ALL(1.0f)));
    }
  }
  const float inverse_lo = inverse_scale(largest_lo), inverse_hi = inverse_scale(largest_hi);
  out->scale = F2(scale_of(largest_lo), scale_of(largest_hi));
  for (u32 k = 0u; k < GROUP; k++) {
    out->codes[k] = U2(rounded(lo[k], inverse_lo), rounded(hi[k], inverse_hi));
  }
}
#end

// partial[r * NT + n] += row r times x n; rows at byte addresses of b, x at elements.
FN void accumulate(ARGS, Bytes b, u32 n_in, PRIVATE const u32 *rows, PRIVATE const u32 *xs,
                   PRIVATE float *partial) {
  const u32 per_block = BLOCK / 8u / GROUP;
  const u32 n_groups = n_in / BLOCK * per_block;
  for (u32 g = LANE; g < n_groups; g += WG) {
    const u32 block = g / per_block;
    const u32 first = (g % per_block) * GROUP;
    Activations own[NT];
    for (u32 n = 0u; n < NT; n++) {
      activations(args, n_in, xs[n], block * BLOCK, first, &own[n]);
    }
    for (u32 r = 0u; r < R; r++) {
      const u32 at = rows[r] + block * BLOCK_BYTES;
      const f4 scale = scales(args, b, at, first);
      u2 units[GROUP];
      packed_group(args, b, at, first, units);
      for (u32 n = 0u; n < NT; n++) {
        int lo = 0, hi = 0;
        for (u32 k = 0u; k < GROUP; k++) {
          lo = dot_i8(units[k].x, own[n].codes[k].x, lo);
          hi = dot_i8(units[k].y, own[n].codes[k].y, hi);
        }
        float total = scale.x * own[n].scale.x * (float)lo + scale.z * own[n].scale.y * (float)hi;
        if (SHIFTED) total += scale.y * own[n].sum.x + scale.w * own[n].sum.y;
        partial[r * NT + n] += total;
      }
    }
  }
}
#else
// partial[r * NT + n] += row r times x n; rows at byte addresses of b, x at elements.
FN void accumulate(ARGS, Bytes b, u32 n_in, PRIVATE const u32 *rows, PRIVATE const u32 *xs,
                   PRIVATE float *partial) {
  const u32 per_block = BLOCK / 8u / GROUP;
  const u32 n_groups = (n_in + BLOCK - 1u) / BLOCK * per_block;
  for (u32 g = LANE; g < n_groups; g += WG) {
    const u32 block = g / per_block;
    const u32 first = (g % per_block) * GROUP;
    f4 lo[NT * GROUP], hi[NT * GROUP];
    f2 sum_x[NT];
    for (u32 n = 0u; n < NT; n++) {
      sum_x[n] = F2(0.0f, 0.0f);
      for (u32 k = 0u; k < GROUP; k++) {
        const u32 p = block * BLOCK + unit_at(first + k);
        const f4 l = columns(args, n_in, xs[n], p), h = columns(args, n_in, xs[n], p + SPAN);
        lo[n * GROUP + k] = l;
        hi[n * GROUP + k] = h;
        if (SHIFTED) {
          sum_x[n] = sum_x[n] + F2(f4_dot(l, F4_ALL(1.0f)), f4_dot(h, F4_ALL(1.0f)));
        }
      }
    }
    for (u32 r = 0u; r < R; r++) {
      const f4 scale = scales(args, b, rows[r] + block * BLOCK_BYTES, first);
      f2 sum[NT];
      for (u32 n = 0u; n < NT; n++) sum[n] = F2(0.0f, 0.0f);
      for (u32 k = 0u; k < GROUP; k++) {
        const Codes c = row_codes(args, b, rows[r], block, first + k, n_in);
        for (u32 n = 0u; n < NT; n++) {
          sum[n] = sum[n] + F2(f4_dot(c.lo, lo[n * GROUP + k]), f4_dot(c.hi, hi[n * GROUP + k]));
        }
      }
      for (u32 n = 0u; n < NT; n++) {
        float total = scale.x * sum[n].x + scale.z * sum[n].y;
        if (SHIFTED) total += scale.y * sum_x[n].x + scale.w * sum_x[n].y;
        partial[r * NT + n] += total;
      }
    }
  }
}
#end

// Leaves the sums over all threads in `totals`, for every thread to read.
FN void finish(ARGS, PRIVATE const float *partial) {
#if SUBGROUPS
  for (u32 o = 0u; o < ALL_OUT; o++) {
    const float part = subgroup_add(partial[o]);
    if (IN_SUBGROUP == 0u) sums[SUBGROUP * ALL_OUT + o] = part;
  }
  BARRIER();
  if (LANE < ALL_OUT) {
    float total = 0.0f;
    for (u32 i = 0u; i < N_SUBGROUPS; i++) total += sums[i * ALL_OUT + LANE];
    totals[LANE] = total;
  }
#else
  const u32 share = WG / ALL_OUT;
  for (u32 o = 0u; o < ALL_OUT; o++) sums[o * WG + LANE] = partial[o];
  BARRIER();
  float s = 0.0f;
  for (u32 i = 0u; i < ALL_OUT; i++) s += sums[(LANE / share) * WG + LANE % share + i * share];
  BARRIER();
  sums[LANE] = s;
  BARRIER();
  if (LANE < ALL_OUT) {
    float total = 0.0f;
    for (u32 i = 0u; i < share; i++) total += sums[LANE * share + i];
    totals[LANE] = total;
  }
#end
  BARRIER();
}
