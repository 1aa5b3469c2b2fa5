// Products of a warp's matrices, for the runtime: what ports/nvidia.h says of each thread's
// registers.

static float half_of(u32 bits, u32 is_bf16) {
  if (is_bf16) {
    const u32 whole = bits << 16;
    float x;
    memcpy(&x, &whole, 4);
    return x;
  }
  const u16 stored = u16(bits);
  _Float16 x;
  memcpy(&x, &stored, 2);
  return float(x);
}

// sum plus `n` products, as matrix units add them: products are exact, all addends are cut off at
// the 24th digit of the largest one, and so is the sum. Chips keep up to two digits more (Fasi et
// al., 2021, "Numerical behavior of NVIDIA tensor cores").
static float add_products(float sum, const double *products, u32 n) {
  double largest = fabs(double(sum)), all = double(sum);
  for (u32 i = 0; i < n; i++) {
    largest = std::max(largest, fabs(products[i]));
    all += products[i];
  }
  if (largest == 0 || !std::isfinite(all)) return float(all);
  u64 bits;
  memcpy(&bits, &largest, 8);
  // Powers of two: one digit, and its inverse.
  const u64 digit_bits = ((bits >> 52) - 23) << 52, inverse_bits = (2046 - (bits >> 52) + 23) << 52;
  double digit, inverse;
  memcpy(&digit, &digit_bits, 8);
  memcpy(&inverse, &inverse_bits, 8);
  long long total = (long long)(double(sum) * inverse);
  for (u32 i = 0; i < n; i++) total += (long long)(products[i] * inverse);
  const double exact = double(total) * digit;
  float rounded = float(exact);
  if (fabs(double(rounded)) > fabs(exact)) rounded = nextafterf(rounded, 0.0f);
  return rounded;
}

// The thread of the warp that has row or column `major` and word `minor` of it.
static const u32 *part(u32 major, u32 minor) { return given_by(4 * (major % 8) + minor % 4); }

extern "C" void multiply_halves(float *c, const u32 *a, const u32 *b, u32 is_bf16, const char *file,
                                int line) {
  const u32 own[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  meet(own, 6, file, line);
  const u32 g = thread.lane % 32 / 4, t = thread.lane % 4;
  for (u32 i = 0; i < 4; i++) {
    const u32 row = g + i / 2 * 8, column = 2 * t + i % 2;
    double products[16];
    for (u32 k = 0; k < 16; k++) {
      const u32 x = part(row, k / 2)[row / 8 + k / 8 * 2], y = part(column, k / 2)[4 + k / 8];
      products[k] = double(half_of(x >> (k % 2 * 16) & 0xffff, is_bf16))
                    * double(half_of(y >> (k % 2 * 16) & 0xffff, is_bf16));
    }
    c[i] = add_products(c[i], products, 16);
  }
}

// n_columns 32: four registers of a, two of b; 16: half of them.
extern "C" void multiply_bytes(int *c, const u32 *a, const u32 *b, u32 n_columns, const char *file,
                               int line) {
  u32 own[6] = {a[0], a[1], 0, 0, b[0], 0};
  if (n_columns == 32) {
    own[2] = a[2];
    own[3] = a[3];
    own[5] = b[1];
  }
  meet(own, 6, file, line);
  const u32 g = thread.lane % 32 / 4, t = thread.lane % 4;
  for (u32 i = 0; i < 4; i++) {
    const u32 row = g + i / 2 * 8, column = 2 * t + i % 2;
    for (u32 k = 0; k < n_columns; k++) {
      const u32 x = part(row, k / 4)[row / 8 + k / 16 * 2], y = part(column, k / 4)[4 + k / 16];
      c[i] += int(int8_t(x >> (k % 4 * 8))) * int(int8_t(y >> (k % 4 * 8)));
    }
  }
}

extern "C" float value_of(float x, u32 mask, const char *file, int line) {
  u32 own[1];
  memcpy(own, &x, 4);
  meet(own, 1, file, line);
  memcpy(&x, given_by((thread.lane % 32) ^ mask), 4);
  return x;
}

// sum plus the products of 16 numbers of 16 bits.
extern "C" float add_dot(float sum, const u32 *a, const u32 *b, u32 is_bf16) {
  double products[16];
  for (u32 k = 0; k < 16; k++) {
    products[k] = double(half_of(a[k / 2] >> (k % 2 * 16) & 0xffff, is_bf16))
                  * double(half_of(b[k / 2] >> (k % 2 * 16) & 0xffff, is_bf16));
  }
  return add_products(sum, products, 16);
}

// Matrices whose eight rows were read at once, and how many of them had two rows in one bank.
static u32 n_read, n_conflicts;

extern "C" void count_banks(const u32 *elements) {
  u32 banks = 0;
  for (u32 i = 0; i < 8; i++) {
    bool again = false;
    for (u32 k = 0; k < i; k++) again = again || elements[k] == elements[i];
    if (!again && (banks >> elements[i] % 8 & 1)) {
      n_conflicts++;
      break;
    }
    banks |= 1u << elements[i] % 8;
  }
  n_read++;
}

extern "C" u32 rows_read() { return n_read; }
extern "C" u32 bank_conflicts() { return n_conflicts; }
