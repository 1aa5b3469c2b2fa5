// The port for SYCL, which compiles OpenCL C and passes only numbers and memory: a struct is read
// from memory.
#include "opencl.h"

#undef STRUCT_PARAM
#undef STRUCT_BEGIN
#define STRUCT_PARAM(i, T, name) const __global T *name##_memory
#define STRUCT_BEGIN(i, T, name) const T name = *name##_memory;
