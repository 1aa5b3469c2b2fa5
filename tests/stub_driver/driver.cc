// A driver on the host's memory, for tests without a card. Work waits in its stream until something
// waits for it, so that what isn't ordered comes late; kernels run under the emulator. What a caller
// may not do is collected as text.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using u8 = unsigned char;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr int OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NO_CONTEXT = 201,
              NOT_READY = 600, FAILED = 719;
constexpr u64 PAGE_BYTES = 64 << 10;
// In place of the bytes of an argument: a pointer to what a kernel reads, or also writes.
constexpr u32 READS = 0, WRITES = 0xffffffffu;

struct Range {
  u64 begin, end;
};

struct Block {
  u64 end;
  int device;  // -1: pinned memory of the host
  bool is_mapped;
};

struct Work {
  std::function<void()> run;
  std::vector<Range> uses;
  const char *what;
  std::function<bool()> can_run = nullptr;  // null: always
};

struct Argument {
  u8 *data;
  u64 n_bytes;
  u32 kind;
  void *cells;
};

struct Function {
  void *library = nullptr, *entry = nullptr;
  std::vector<u32> argument_bytes;
};

struct Launch {
  Function *function;
  u32 groups[3], threads;
  std::vector<std::vector<u8>> arguments;
};

struct Graph {
  std::vector<Launch> launches;
};

struct Stream {
  int device;
  std::deque<Work> work;
  u64 n_queued = 0, n_done = 0;
  Graph *recording = nullptr;
};

struct Event {
  Stream *stream = nullptr;
  u64 position = 0;
};

struct Program {
  std::string text, code, log;
};

struct Pages {
  u64 n_bytes;
  int device, n_maps;
};

struct Failure {
  long after;
  int error;
};

using Compile = const char *(*)(const char *text, const char *options);
using RunGrid = u32 (*)(void *, Argument *, u32, const u32 *, u32, u32, u32, bool);
using FaultText = const char *(*)(u32);

static std::recursive_mutex mutex;
static std::map<std::string, u64> counts, settings;
static std::map<std::string, Failure> failures;
static std::vector<std::string> faults;
static std::map<u64, Block> blocks;
static std::map<u64, Pages *> mapped;
static std::map<int, u64> used;
static std::map<int, int> retained, lost;
static std::vector<Stream *> streams;
static Compile compile;
static RunGrid run_grid;
static FaultText fault_text;
static thread_local int current = -1;

static u64 setting(const char *name, u64 otherwise) {
  const auto found = settings.find(name);
  return found == settings.end() ? otherwise : found->second;
}

static void fault(const char *format, ...) {
  char text[300];
  va_list rest;
  va_start(rest, format);
  vsnprintf(text, sizeof text, format, rest);
  va_end(rest);
  if (faults.size() < 20) faults.push_back(text);
}

// Counts a call; the error that was planted for it, or that of a lost device.
static int called(const char *name, bool needs_context = true) {
  counts[name]++;
  const auto planted = failures.find(name);
  if (planted != failures.end() && --planted->second.after < 0) {
    const int error = planted->second.error;
    failures.erase(planted);
    if (error == FAILED) lost[current] = error;
    return error;
  }
  if (!needs_context) return OK;
  if (current < 0 || !retained[current]) return NO_CONTEXT;
  return lost.count(current) ? lost[current] : OK;
}

#define CALLED(...) \
  std::lock_guard<std::recursive_mutex> guard(mutex); \
  if (const int error = called(__func__ __VA_OPT__(, ) __VA_ARGS__)) return error

// The block that has the address, and the end of the blocks that follow without a gap.
static const Block *block_of(u64 at, u64 *end) {
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return nullptr;
  --found;
  if (found->second.end <= at) return nullptr;
  const Block *first = &found->second;
  *end = first->end;
  while (++found != blocks.end() && found->first == *end && found->second.is_mapped &&
         first->is_mapped) {
    *end = found->second.end;
  }
  return first;
}

static bool lives(const Range &range, const char *what, bool on_host) {
  u64 end = 0;
  const Block *block = block_of(range.begin, &end);
  if (!block || end < range.end || (block->device < 0) != on_host) {
    fault("%s uses %s memory that isn't there", what, on_host ? "pinned" : "the device's");
    return false;
  }
  return true;
}

// Does the work before the position; false where some waits for what never comes.
static bool drain(Stream *stream, u64 position) {
  while (stream->n_done < position) {
    const Work next = stream->work.front();
    if (next.can_run && !lost.count(stream->device)) {
      const u64 n_done = stream->n_done;
      if (!next.can_run()) return false;
      if (stream->n_done != n_done) continue;  // another stream waited for this one
    }
    Work work = stream->work.front();
    stream->work.pop_front();
    stream->n_done++;
    if (!lost.count(stream->device)) work.run();
  }
  return true;
}

static void wait_for(Stream *stream, u64 position, const char *what) {
  if (!drain(stream, position)) fault("%s is waited for, and never comes", what);
}

static void queue(Stream *stream, Work work) {
  if (stream->recording) return fault("%s is recorded, and only kernels may be", work.what);
  stream->work.push_back(work);
  stream->n_queued++;
  if (setting("eager", 0)) drain(stream, stream->n_queued);
}

static void check_pending(u64 begin, u64 end, const char *what) {
  for (Stream *stream : streams) {
    for (const Work &work : stream->work) {
      for (const Range &range : work.uses) {
        if (range.begin < end && begin < range.end) {
          fault("%s frees memory that %s will use", what, work.what);
        }
      }
    }
  }
}

static bool is_pointer(u32 argument_bytes) {
  return argument_bytes == READS || argument_bytes == WRITES;
}

static void run_kernel(const Launch &launch) {
  counts["kernels run"]++;
  if (failures.count("kernel") && --failures["kernel"].after < 0) {
    lost[current] = failures["kernel"].error;
    failures.erase("kernel");
    return;
  }
  if (!launch.function->entry) return;
  std::vector<Argument> arguments;
  std::vector<std::vector<u8>> values = launch.arguments;
  for (size_t i = 0; i < values.size(); i++) {
    const u32 kind = launch.function->argument_bytes[i];
    if (!is_pointer(kind)) {
      arguments.push_back({values[i].data(), values[i].size(), 2, nullptr});
      continue;
    }
    u64 at, end = 0;
    memcpy(&at, values[i].data(), 8);
    if (!lives({at, at + 1}, "a kernel", false)) return;
    block_of(at, &end);
    arguments.push_back({reinterpret_cast<u8 *>(at), end - at, kind == WRITES, nullptr});
  }
  const u32 n = run_grid(launch.function->entry, arguments.data(), u32(arguments.size()),
                         launch.groups, launch.threads, 0, 1, true);
  for (u32 i = 0; i < n; i++) fault("a kernel: %s", fault_text(i));
}

extern "C" {

// What tests set and ask.
void stub_set(const char *name, u64 value) { settings[name] = value; }
u64 stub_count(const char *name) { return counts[name]; }
void stub_fail(const char *name, long after, int error) { failures[name] = {after, error}; }
u32 stub_n_faults() { return u32(faults.size()); }
const char *stub_fault(u32 i) { return faults[i].c_str(); }
u64 stub_used(int device) { return used[device]; }
u64 stub_n_blocks() { return blocks.size(); }
void stub_runner(Compile compiles, void *runs, void *tells) {
  compile = compiles;
  run_grid = reinterpret_cast<RunGrid>(runs);
  fault_text = reinterpret_cast<FaultText>(tells);
}
void stub_reset() {
  counts.clear();
  failures.clear();
  faults.clear();
  settings.clear();
  lost.clear();
}
void stub_lose(int device) { lost[device] = FAILED; }
void stub_forget() { counts.clear(); }

int cuInit(u32) {
  CALLED(false);
  return setting("init", OK);
}
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return OK;
}
int cuDeviceGetCount(int *n) {
  CALLED(false);
  *n = int(setting("devices", 1));
  return OK;
}
int cuDeviceGet(int *device, int number) {
  CALLED(false);
  *device = number;
  return OK;
}
int cuDeviceGetName(char *name, int size, int device) {
  CALLED(false);
  snprintf(name, size_t(size), "Stub %d", device);
  return OK;
}
int cuDeviceTotalMem_v2(size_t *n, int) {
  CALLED(false);
  *n = setting("memory", u64(1) << 30);
  return OK;
}
int cuDeviceComputeCapability(int *major, int *minor, int) {
  CALLED(false);
  const int chip = int(setting("chip", 90));
  *major = chip / 10;
  *minor = chip % 10;
  return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  CALLED(false);
  retained[device]++;
  *context = reinterpret_cast<void *>(u64(device) + 1);
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  CALLED(false);
  retained[device]--;
  return OK;
}
int cuDevicePrimaryCtxReset_v2(int device) {
  CALLED(false);
  lost.erase(device);
  for (Stream *stream : streams) {
    if (stream->device == device) {
      stream->work.clear();
      stream->n_done = stream->n_queued;
    }
  }
  for (auto i = blocks.begin(); i != blocks.end();) {
    i = i->second.device == device ? blocks.erase(i) : std::next(i);
  }
  used[device] = 0;
  return OK;
}
int cuCtxSetCurrent(void *context) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  current = int(reinterpret_cast<u64>(context)) - 1;
  return OK;
}
int cuDeviceCanAccessPeer(int *can, int, int) {
  CALLED();
  *can = int(setting("peers", 1));
  return OK;
}
int cuCtxEnablePeerAccess(void *, u32) {
  CALLED();
  return OK;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  CALLED();
  *total = setting("memory", u64(1) << 30);
  *free = *total > used[current] ? *total - used[current] : 0;
  return OK;
}

static int allocate(u64 *address, u64 n, int device) {
  void *data = nullptr;
  if (posix_memalign(&data, 256, n + 256)) return NO_MEMORY;
  memset(data, 0xa5, n);  // nobody zeroed it yet
  *address = reinterpret_cast<u64>(data);
  blocks[*address] = {*address + n, device, false};
  return OK;
}

static int release(u64 address, const char *what) {
  const auto found = blocks.find(address);
  if (found == blocks.end()) {
    fault("%s of what isn't there", what);
    return INVALID;
  }
  check_pending(address, found->second.end, what);
  memset(reinterpret_cast<void *>(address), 0xdd, found->second.end - address);
  free(reinterpret_cast<void *>(address));
  blocks.erase(found);
  return OK;
}

int cuMemAlloc_v2(u64 *address, size_t n) {
  CALLED();
  if (used[current] + n > setting("memory", u64(1) << 30)) return NO_MEMORY;
  used[current] += n;
  return allocate(address, n, current);
}
int cuMemFree_v2(u64 address) {
  CALLED();
  const auto found = blocks.find(address);
  if (found != blocks.end()) used[found->second.device] -= found->second.end - address;
  return release(address, "cuMemFree");
}
int cuMemHostAlloc(void **data, size_t n, u32) {
  CALLED();
  u64 address = 0;
  const int error = allocate(&address, n, -1);
  *data = reinterpret_cast<void *>(address);
  return error;
}
int cuMemFreeHost(void *data) {
  CALLED();
  return release(reinterpret_cast<u64>(data), "cuMemFreeHost");
}

// Memory that grows.
int cuMemGetAllocationGranularity(size_t *n, const void *, int) {
  CALLED();
  *n = PAGE_BYTES;
  return OK;
}
int cuMemCreate(u64 *pages, size_t n, const void *, u64) {
  CALLED();
  if (n % PAGE_BYTES) return INVALID;
  if (used[current] + n > setting("memory", u64(1) << 30)) return NO_MEMORY;
  used[current] += n;
  *pages = reinterpret_cast<u64>(new Pages{n, current, 0});
  return OK;
}
int cuMemRelease(u64 handle) {
  CALLED();
  Pages *pages = reinterpret_cast<Pages *>(handle);
  if (pages->n_maps) fault("cuMemRelease of pages that are mapped");
  used[pages->device] -= pages->n_bytes;
  delete pages;
  return OK;
}
int cuMemAddressReserve(u64 *address, size_t n, size_t, u64, u64) {
  CALLED();
  if (n % PAGE_BYTES) return INVALID;
  void *at = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = reinterpret_cast<u64>(at);
  return at == MAP_FAILED ? NO_MEMORY : OK;
}
int cuMemAddressFree(u64 address, size_t n) {
  CALLED();
  u64 end;
  if (block_of(address, &end)) fault("cuMemAddressFree of mapped addresses");
  munmap(reinterpret_cast<void *>(address), n);
  return OK;
}
int cuMemMap(u64 address, size_t n, size_t, u64 handle, u64) {
  CALLED();
  Pages *pages = reinterpret_cast<Pages *>(handle);
  if (pages->n_bytes != n) return INVALID;
  pages->n_maps++;
  mapped[address] = pages;
  blocks[address] = {address + n, pages->device, true};
  return OK;
}
int cuMemSetAccess(u64 address, size_t n, const void *, size_t) {
  CALLED();
  mprotect(reinterpret_cast<void *>(address), n, PROT_READ | PROT_WRITE);
  memset(reinterpret_cast<void *>(address), 0xa5, n);
  return OK;
}
int cuMemUnmap(u64 address, size_t n) {
  CALLED();
  check_pending(address, address + n, "cuMemUnmap");
  madvise(reinterpret_cast<void *>(address), n, MADV_DONTNEED);
  mprotect(reinterpret_cast<void *>(address), n, PROT_NONE);
  blocks.erase(address);
  mapped[address]->n_maps--;
  mapped.erase(address);
  return OK;
}

// Streams and events.
int cuStreamCreate(void **made, u32) {
  CALLED();
  Stream *stream = new Stream{current, {}, 0, 0, nullptr};
  streams.push_back(stream);
  *made = stream;
  return OK;
}
int cuStreamDestroy_v2(void *) {
  CALLED();
  return OK;
}
int cuStreamSynchronize(void *which) {
  CALLED();
  Stream *stream = static_cast<Stream *>(which);
  if (stream->recording) fault("a stream is waited for while it records");
  wait_for(stream, stream->n_queued, "a stream");
  return lost.count(stream->device) ? lost[stream->device] : OK;
}
int cuStreamQuery(void *which) {
  CALLED();
  const Stream *stream = static_cast<Stream *>(which);
  return stream->n_done == stream->n_queued ? OK : NOT_READY;
}
int cuEventCreate(void **made, u32) {
  CALLED();
  *made = new Event;
  return OK;
}
int cuEventDestroy_v2(void *event) {
  CALLED();
  delete static_cast<Event *>(event);
  return OK;
}
int cuEventRecord(void *which, void *on) {
  CALLED();
  Stream *stream = static_cast<Stream *>(on);
  *static_cast<Event *>(which) = {stream, stream->n_queued};
  return OK;
}
int cuEventSynchronize(void *which) {
  CALLED();
  const Event event = *static_cast<Event *>(which);
  if (!event.stream) {
    fault("an event is waited for that wasn't recorded");
    return OK;
  }
  wait_for(event.stream, event.position, "an event");
  return lost.count(event.stream->device) ? lost[event.stream->device] : OK;
}
// A device works on while the host asks: what is asked for is there the second time.
int cuEventQuery(void *which) {
  CALLED();
  const Event event = *static_cast<Event *>(which);
  if (!event.stream) return INVALID;
  if (counts["cuEventQuery"] % 2 || !drain(event.stream, event.position)) return NOT_READY;
  return lost.count(event.stream->device) ? lost[event.stream->device] : OK;
}
int cuStreamWaitEvent(void *which, void *until, u32) {
  CALLED();
  const Event event = *static_cast<Event *>(until);
  if (!event.stream) fault("a stream waits for an event that wasn't recorded");
  else queue(static_cast<Stream *>(which), {[] {}, {}, "a wait", [event] {
    return drain(event.stream, event.position);
  }});
  return OK;
}

// Copies.
static int copy(u64 to, u64 from, u64 n, void *on, bool from_host, bool to_host, const char *what) {
  const Range source{from, from + n}, target{to, to + n};
  if (!n) return INVALID;
  if (!lives(source, what, from_host) || !lives(target, what, to_host)) return INVALID;
  if (!from_host && !to_host && from < to + n && to < from + n) fault("%s overlaps", what);
  queue(static_cast<Stream *>(on), {[=] {
    if (lives(source, what, from_host) && lives(target, what, to_host)) {
      memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n);
    }
  }, {source, target}, what});
  return OK;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t n, void *stream) {
  CALLED();
  counts["bytes up"] += n;
  return copy(to, reinterpret_cast<u64>(from), n, stream, true, false, "an upload");
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t n, void *stream) {
  CALLED();
  counts["bytes down"] += n;
  return copy(reinterpret_cast<u64>(to), from, n, stream, false, true, "a download");
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t n, void *stream) {
  CALLED();
  return copy(to, from, n, stream, false, false, "a copy");
}
int cuMemcpyPeerAsync(u64 to, void *to_context, u64 from, void *from_context, size_t n,
                      void *stream) {
  CALLED();
  u64 end;
  const Block *source = block_of(from, &end), *target = block_of(to, &end);
  const auto device = [](void *context) { return int(reinterpret_cast<u64>(context)) - 1; };
  if (!source || !target || source->device != device(from_context) ||
      target->device != device(to_context)) {
    fault("a copy between cards names the wrong cards");
  }
  return copy(to, from, n, stream, false, false, "a copy between cards");
}
int cuMemsetD8Async(u64 at, u8 value, size_t n, void *stream) {
  CALLED();
  const Range range{at, at + n};
  if (!lives(range, "a fill", false)) return INVALID;
  queue(static_cast<Stream *>(stream), {[=] {
    if (lives(range, "a fill", false)) memset(reinterpret_cast<void *>(at), value, n);
  }, {range}, "a fill"});
  return OK;
}

// Kernels. The code of a kernel is the path of a library, or "null".
int cuModuleLoadData(void **module, const void *image) {
  CALLED();
  const std::string path(static_cast<const char *>(image));
  Function *made = new Function;
  *module = made;
  if (path == "null") return OK;
  made->library = dlopen(path.c_str(), RTLD_NOW);
  if (!made->library) {
    fault("%s", dlerror());
    return 200;
  }
  made->entry = dlsym(made->library, "kernel_main");
  const u32 n = *static_cast<const u32 *>(dlsym(made->library, "n_arguments"));
  const u32 *bytes = static_cast<const u32 *>(dlsym(made->library, "argument_bytes"));
  made->argument_bytes.assign(bytes, bytes + n);
  return OK;
}
int cuModuleUnload(void *module) {
  CALLED();
  delete static_cast<Function *>(module);
  return OK;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  CALLED();
  *function = module;
  return strcmp(name, "kernel_main") ? 500 : OK;
}
int cuLaunchKernel(void *which, u32 x, u32 y, u32 z, u32 threads, u32, u32, u32, void *on,
                   void **values, void **) {
  CALLED();
  Function *function = static_cast<Function *>(which);
  Stream *stream = static_cast<Stream *>(on);
  if (!x || !y || !z || y > 65535 || z > 65535 || !threads || threads > 1024) return INVALID;
  Launch launch{function, {x, y, z}, threads, {}};
  std::vector<Range> uses;
  for (size_t i = 0; i < function->argument_bytes.size(); i++) {
    const u32 n = function->argument_bytes[i];
    const u8 *value = static_cast<const u8 *>(values[i]);
    launch.arguments.emplace_back(value, value + (is_pointer(n) ? 8 : n));
    u64 at, end = 0;
    if (!is_pointer(n)) continue;
    memcpy(&at, value, 8);
    if (!lives({at, at + 1}, "a launch", false)) return INVALID;
    block_of(at, &end);
    uses.push_back({at, end});
  }
  if (stream->recording) {
    stream->recording->launches.push_back(launch);
    counts["recorded"]++;
    return OK;
  }
  queue(stream, {[launch] { run_kernel(launch); }, uses, "a kernel"});
  return OK;
}
struct Config {
  u32 sizes[6], shared_bytes;
  void *stream, *attributes;
  u32 n_attributes;
};
int cuLaunchKernelEx(const Config *config, void *function, void **values, void **more) {
  {
    CALLED();
    if (config->n_attributes != 1 || *static_cast<const int *>(config->attributes) != 6) {
      return INVALID;
    }
  }
  const u32 *s = config->sizes;
  return cuLaunchKernel(function, s[0], s[1], s[2], s[3], s[4], s[5], config->shared_bytes,
                        config->stream, values, more);
}
int cuStreamBeginCapture_v2(void *which, int) {
  CALLED();
  Stream *stream = static_cast<Stream *>(which);
  if (stream->recording) return INVALID;
  stream->recording = new Graph;
  return OK;
}
int cuStreamEndCapture(void *which, void **graph) {
  CALLED();
  Stream *stream = static_cast<Stream *>(which);
  *graph = stream->recording;
  stream->recording = nullptr;
  return *graph ? OK : INVALID;
}
int cuGraphInstantiateWithFlags(void **made, void *graph, u64) {
  CALLED();
  *made = new Graph(*static_cast<Graph *>(graph));
  return OK;
}
int cuGraphDestroy(void *graph) {
  CALLED();
  delete static_cast<Graph *>(graph);
  return OK;
}
int cuGraphExecDestroy(void *graph) {
  CALLED();
  delete static_cast<Graph *>(graph);
  return OK;
}
int cuGraphLaunch(void *which, void *on) {
  CALLED();
  const Graph graph = setting("runs", 1) ? *static_cast<Graph *>(which) : Graph{};
  std::vector<Range> uses;
  for (const Launch &launch : graph.launches) {
    for (size_t i = 0; i < launch.arguments.size(); i++) {
      u64 at, end = 0;
      if (!is_pointer(launch.function->argument_bytes[i])) continue;
      memcpy(&at, launch.arguments[i].data(), 8);
      if (!lives({at, at + 1}, "a graph", false)) return INVALID;
      block_of(at, &end);
      uses.push_back({at, end});
    }
  }
  queue(static_cast<Stream *>(on), {[graph] {
    for (const Launch &launch : graph.launches) run_kernel(launch);
  }, uses, "a graph"});
  return OK;
}
int cuGetErrorName(int error, const char **name) {
  *name = error == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == FAILED  ? "CUDA_ERROR_LAUNCH_FAILED"
          : error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_THE_STUB";
  return OK;
}

// The compiler.
int nvrtcVersion(int *major, int *minor) {
  *major = 12;
  *minor = 9;
  return OK;
}
int nvrtcGetNumSupportedArchs(int *n) {
  *n = 7;
  return OK;
}
int nvrtcGetSupportedArchs(int *chips) {
  const int known[] = {75, 80, 86, 89, 90, 100, 120};
  memcpy(chips, known, sizeof known);
  return OK;
}
int nvrtcCreateProgram(void **made, const char *text, const char *, int, void *, void *) {
  counts["compiled"]++;
  *made = new Program{text, "", ""};
  return OK;
}
int nvrtcDestroyProgram(void **program) {
  delete static_cast<Program *>(*program);
  return OK;
}
int nvrtcCompileProgram(void *which, int n, const char **options) {
  Program *program = static_cast<Program *>(which);
  std::string all;
  for (int i = 0; i < n; i++) all += std::string(options[i]) + " ";
  const std::string made = compile ? compile(program->text.c_str(), all.c_str()) : "null";
  const bool failed = made.rfind("error: ", 0) == 0;
  (failed ? program->log : program->code) = made;
  return failed ? 6 : OK;
}
int nvrtcGetProgramLogSize(void *program, size_t *n) {
  *n = static_cast<Program *>(program)->log.size() + 1;
  return OK;
}
int nvrtcGetProgramLog(void *program, char *log) {
  strcpy(log, static_cast<Program *>(program)->log.c_str());
  return OK;
}
int nvrtcGetCUBINSize(void *program, size_t *n) {
  *n = static_cast<Program *>(program)->code.size() + 1;
  return OK;
}
int nvrtcGetCUBIN(void *program, char *code) {
  strcpy(code, static_cast<Program *>(program)->code.c_str());
  return OK;
}
int nvrtcGetPTXSize(void *program, size_t *n) { return nvrtcGetCUBINSize(program, n); }
int nvrtcGetPTX(void *program, char *code) { return nvrtcGetCUBIN(program, code); }

#include "hip.h"
#include "nccl.h"
}
