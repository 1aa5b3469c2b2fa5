// Vectors for compilers of C++ that have none with operators: CUDA's, HIP's and the emulator's.
// FN must be defined.

struct alignas(8) f2 {
  float x, y;
};
struct alignas(16) f4 {
  float x, y, z, w;
};
struct alignas(8) u2 {
  u32 x, y;
};
struct alignas(16) u4 {
  u32 x, y, z, w;
};

FN f2 F2(float x, float y) { return f2{x, y}; }
FN f4 F4(float x, float y, float z, float w) { return f4{x, y, z, w}; }
FN u2 U2(u32 x, u32 y) { return u2{x, y}; }
FN u4 U4(u32 x, u32 y, u32 z, u32 w) { return u4{x, y, z, w}; }

#define UNLADEN_F2(op) \
  FN f2 operator op(f2 a, f2 b) { return f2{a.x op b.x, a.y op b.y}; } \
  FN f2 operator op(f2 a, float b) { return f2{a.x op b, a.y op b}; } \
  FN f2 operator op(float a, f2 b) { return f2{a op b.x, a op b.y}; } \
  FN f2 &operator op##=(f2 &a, f2 b) { return a = a op b; } \
  FN f2 &operator op##=(f2 &a, float b) { return a = a op b; }
#define UNLADEN_F4(op) \
  FN f4 operator op(f4 a, f4 b) { return f4{a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w}; } \
  FN f4 operator op(f4 a, float b) { return f4{a.x op b, a.y op b, a.z op b, a.w op b}; } \
  FN f4 operator op(float a, f4 b) { return f4{a op b.x, a op b.y, a op b.z, a op b.w}; } \
  FN f4 &operator op##=(f4 &a, f4 b) { return a = a op b; } \
  FN f4 &operator op##=(f4 &a, float b) { return a = a op b; }
#define UNLADEN_U(op) \
  FN u2 operator op(u2 a, u2 b) { return u2{a.x op b.x, a.y op b.y}; } \
  FN u2 operator op(u2 a, u32 b) { return u2{a.x op b, a.y op b}; } \
  FN u4 operator op(u4 a, u4 b) { return u4{a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w}; } \
  FN u4 operator op(u4 a, u32 b) { return u4{a.x op b, a.y op b, a.z op b, a.w op b}; }

UNLADEN_F2(+)
UNLADEN_F2(-)
UNLADEN_F2(*)
UNLADEN_F2(/)
UNLADEN_F4(+)
UNLADEN_F4(-)
UNLADEN_F4(*)
UNLADEN_F4(/)
UNLADEN_U(+)
UNLADEN_U(-)
UNLADEN_U(&)
UNLADEN_U(|)
UNLADEN_U(^)
UNLADEN_U(<<)
UNLADEN_U(>>)

FN float f4_dot(f4 a, f4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
