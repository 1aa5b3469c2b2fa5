// The same driver by the names of HIP, whose contexts are the devices' numbers.
static void *context_of(int device) { return reinterpret_cast<void *>(u64(device) + 1); }

int hipInit(u32 flags) { return cuInit(flags); }
int hipDriverGetVersion(int *version) { return cuDriverGetVersion(version); }
int hipGetDeviceCount(int *n) { return cuDeviceGetCount(n); }
int hipDeviceGet(int *device, int number) { return cuDeviceGet(device, number); }
int hipDeviceGetName(char *name, int size, int device) {
  return cuDeviceGetName(name, size, device);
}
int hipDeviceTotalMem(size_t *n, int device) { return cuDeviceTotalMem_v2(n, device); }
int hipDeviceComputeCapability(int *major, int *minor, int device) {
  return cuDeviceComputeCapability(major, minor, device);
}
int hipGetDevicePropertiesR0600(void *properties, int) {
  const char *chips[] = {"gfx90a:sramecc+:xnack-", "gfx1030", "gfx803"};
  strcpy(static_cast<char *>(properties), "Stub");
  strcpy(static_cast<char *>(properties) + 1160, chips[setting("hip chip", 0)]);
  return OK;
}
int hipDevicePrimaryCtxRetain(void **context, int device) {
  return cuDevicePrimaryCtxRetain(context, device);
}
int hipDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
int hipDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
int hipSetDevice(int device) { return cuCtxSetCurrent(context_of(device)); }
int hipGetDevice(int *device) {
  *device = current < 0 ? 0 : current;
  return OK;
}
int hipDeviceCanAccessPeer(int *can, int a, int b) { return cuDeviceCanAccessPeer(can, a, b); }
int hipDeviceEnablePeerAccess(int device, u32 flags) {
  return cuCtxEnablePeerAccess(context_of(device), flags);
}
int hipMemGetInfo(size_t *free, size_t *total) { return cuMemGetInfo_v2(free, total); }
int hipMalloc(u64 *address, size_t n) { return cuMemAlloc_v2(address, n); }
int hipFree(u64 address) { return cuMemFree_v2(address); }
int hipHostMalloc(void **data, size_t n, u32 flags) { return cuMemHostAlloc(data, n, flags); }
int hipHostFree(void *data) { return cuMemFreeHost(data); }
int hipMemcpyHtoDAsync(u64 to, void *from, size_t n, void *stream) {
  return cuMemcpyHtoDAsync_v2(to, from, n, stream);
}
int hipMemcpyDtoHAsync(void *to, u64 from, size_t n, void *stream) {
  return cuMemcpyDtoHAsync_v2(to, from, n, stream);
}
int hipMemcpyDtoDAsync(u64 to, u64 from, size_t n, void *stream) {
  return cuMemcpyDtoDAsync_v2(to, from, n, stream);
}
int hipMemcpyPeerAsync(u64 to, int to_device, u64 from, int from_device, size_t n, void *stream) {
  return cuMemcpyPeerAsync(to, context_of(to_device), from, context_of(from_device), n, stream);
}
int hipMemsetD8Async(u64 at, u8 value, size_t n, void *stream) {
  return cuMemsetD8Async(at, value, n, stream);
}
int hipStreamCreateWithFlags(void **made, u32 flags) { return cuStreamCreate(made, flags); }
int hipStreamDestroy(void *stream) { return cuStreamDestroy_v2(stream); }
int hipStreamSynchronize(void *stream) { return cuStreamSynchronize(stream); }
int hipStreamQuery(void *stream) { return cuStreamQuery(stream); }
int hipStreamWaitEvent(void *stream, void *event, u32 flags) {
  return cuStreamWaitEvent(stream, event, flags);
}
int hipEventCreateWithFlags(void **made, u32 flags) { return cuEventCreate(made, flags); }
int hipEventDestroy(void *event) { return cuEventDestroy_v2(event); }
int hipEventRecord(void *event, void *stream) { return cuEventRecord(event, stream); }
int hipEventQuery(void *event) { return cuEventQuery(event); }
int hipEventSynchronize(void *event) { return cuEventSynchronize(event); }
int hipStreamBeginCapture(void *stream, int mode) { return cuStreamBeginCapture_v2(stream, mode); }
int hipStreamEndCapture(void *stream, void **graph) { return cuStreamEndCapture(stream, graph); }
int hipGraphInstantiateWithFlags(void **made, void *graph, u64 flags) {
  return cuGraphInstantiateWithFlags(made, graph, flags);
}
int hipGraphDestroy(void *graph) { return cuGraphDestroy(graph); }
int hipGraphLaunch(void *graph, void *stream) { return cuGraphLaunch(graph, stream); }
int hipGraphExecDestroy(void *graph) { return cuGraphExecDestroy(graph); }
int hipModuleLoadData(void **module, const void *image) { return cuModuleLoadData(module, image); }
int hipModuleUnload(void *module) { return cuModuleUnload(module); }
int hipModuleGetFunction(void **function, void *module, const char *name) {
  return cuModuleGetFunction(function, module, name);
}
int hipModuleLaunchKernel(void *function, u32 x, u32 y, u32 z, u32 tx, u32 ty, u32 tz, u32 shared,
                          void *stream, void **values, void **more) {
  return cuLaunchKernel(function, x, y, z, tx, ty, tz, shared, stream, values, more);
}
const char *hipGetErrorName(int error) {
  return error == NO_MEMORY ? "hipErrorOutOfMemory" : "hipErrorOfTheStub";
}

int hiprtcVersion(int *major, int *minor) { return nvrtcVersion(major, minor); }
int hiprtcCreateProgram(void **made, const char *text, const char *name, int n, void *a, void *b) {
  return nvrtcCreateProgram(made, text, name, n, a, b);
}
int hiprtcDestroyProgram(void **program) { return nvrtcDestroyProgram(program); }
int hiprtcCompileProgram(void *program, int n, const char **options) {
  return nvrtcCompileProgram(program, n, options);
}
int hiprtcGetProgramLogSize(void *program, size_t *n) { return nvrtcGetProgramLogSize(program, n); }
int hiprtcGetProgramLog(void *program, char *log) { return nvrtcGetProgramLog(program, log); }
int hiprtcGetCodeSize(void *program, size_t *n) { return nvrtcGetCUBINSize(program, n); }
int hiprtcGetCode(void *program, char *code) { return nvrtcGetCUBIN(program, code); }
