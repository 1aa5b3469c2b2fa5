// A driver on the host's memory, for tests without a card. Work waits in its stream until something
// waits for it, so that what isn't ordered comes late; kernels run under the emulator. What a caller
// may not do is collected as text.
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

using u8 = unsigned char;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr int OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_STARTED = 3, NO_DEVICE = 100,
              WRONG_DEVICE = 101, NO_CONTEXT = 201, NO_PEERS = 217, WRONG_HANDLE = 400,
              NOT_READY = 600, ALREADY_ALLOWED = 704, FAILED = 719, NOT_SUPPORTED = 801,
              CAPTURED = 900;
constexpr u64 PAGE_BYTES = 64 << 10;
// What a launch may give a workgroup of shared memory: without being asked, and at most (an H200).
constexpr u32 UNASKED = 48 << 10, MOST_LAUNCHED = 227 << 10;
// In place of the bytes of an argument: a pointer to what a kernel reads, or also writes.
constexpr u32 READS = 0, WRITES = 0xffffffffu;

struct Range {
  u64 begin, end;
  bool is_written = false;
};

#include "order.h"

struct Block {
  u64 end;
  int device;      // -1: pinned memory of the host
  bool is_mapped;  // pages
  bool is_allowed = true;
  int pinned_for = -1;  // the only card that pinned memory is for
};

struct Work {
  std::function<void()> run;
  std::vector<Range> uses;
  const char *what;
  std::function<bool()> can_run = nullptr;  // null: always
  bool tells_uses = false;  // what it uses of these ranges is known when it runs
  Clock clock = nullptr;
};

struct Argument {
  u8 *data;
  u64 n_bytes;
  u32 kind;
  void *cells;
  const u8 *there;
};

struct Function {
  int device = -1;
  void *library = nullptr, *entry = nullptr;
  const char *name = "a kernel";
  std::vector<u32> argument_bytes;
  u32 threads = 0;  // what it is compiled for; 0: nobody knows
  std::map<u32, Use> launches;  // the last ones, by stream
  u32 takes = 0, may_take = UNASKED;  // bytes of shared memory that launches give
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
  bool is_destroyed = false, captures_strictly = false;
  u32 number = 0;
  Clock clock = nullptr, joined_host = nullptr;
};

struct Event {
  int device = -1;
  Stream *stream = nullptr;
  u64 position = 0;
  Clock clock = nullptr;  // of the work up to there
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
using RunGrid = u32 (*)(void *, Argument *, u32, const u32 *, u32, u32, u32, bool,
                        u32);
using FaultText = const char *(*)(u32);
using Watch = void (*)(void (*)(u64 begin, u64 end, u32 is_written));

static std::recursive_mutex mutex;
static std::map<std::string, u64> counts, settings;
static std::map<std::string, Failure> failures;
static std::vector<std::string> faults;
static std::map<u64, Block> blocks;
static std::map<u64, Pages *> mapped;
static std::map<int, u64> used;
static std::map<int, int> retained, lost;
static std::map<u64, u64> reserved;
static std::set<const void *> alive;  // events and functions
static std::set<std::pair<int, int>> peers;
static bool is_started = false;
static std::vector<Stream *> streams;
static Compile compile;
static RunGrid run_grid;
static FaultText fault_text;
static Watch watch;
static std::set<std::string> names;  // of kernels
static const Work *running;
static Use running_use;
static thread_local int current = -1;

static u64 setting(const char *name, u64 otherwise) {
  const auto found = settings.find(name);
  return found == settings.end() ? otherwise : found->second;
}

static void fault(const char *format, ...) {
  char text[600];
  va_list rest;
  va_start(rest, format);
  vsnprintf(text, sizeof text, format, rest);
  va_end(rest);
  if (faults.size() < 20) faults.push_back(text);
}

static bool is_lost(int device) { return lost.count(device); }

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

// `device`: that of the stream, whose memory it must be.
static bool lives(const Range &range, const char *what, bool on_host, int device) {
  u64 end = 0;
  const Block *block = block_of(range.begin, &end);
  if (!block || end < range.end || (block->device < 0) != on_host) {
    fault("%s uses %s memory that isn't there", what, on_host ? "pinned" : "the device's");
    return false;
  }
  if (!block->is_allowed) fault("%s uses pages before cuMemSetAccess", what);
  if (on_host && block->pinned_for >= 0 && block->pinned_for != device) {
    fault("%s uses memory that is pinned for another card", what);
  }
  if (!on_host && device >= 0 && block->device != device) {
    fault("%s on card %d uses memory of card %d", what, device, block->device);
  }
  return true;
}

// How messages name a range of memory.
static std::string place_of(u64 begin, u64 end) {
  auto found = blocks.upper_bound(begin);
  if (found == blocks.begin()) return "memory that isn't there";
  --found;
  const u64 n = found->second.end - found->first;
  const std::string of = found->second.device < 0 ? "pinned bytes"
                         : "bytes of card " + std::to_string(found->second.device);
  return std::to_string(end - begin) + " bytes from " + std::to_string(begin - found->first) +
         " on in " + std::to_string(n) + " " + of;
}

// What would disturb a capture that isn't relaxed.
static int unsafe(const char *what) {
  if (!setting("strict captures", 0)) return OK;
  fault("%s during a capture that isn't relaxed", what);
  return CAPTURED;
}

static bool is_usable(const Stream *stream, const char *what) {
  if (stream->is_destroyed) fault("%s on a stream that was destroyed", what);
  return !stream->is_destroyed;
}

// Does the stream's work number `n_done`.
static void run(const Stream *stream, const Work &work) {
  running = &work;
  running_use = {stream->number, stream->n_done, stream->device, work.what};
  for (const Range &range : work.uses) {
    if (work.tells_uses) break;
    touch(range.begin, range.end, range.is_written, running_use, work.clock);
  }
  work.run();
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
    if (!lost.count(stream->device)) run(stream, work);
  }
  return true;
}

// The host waits for a stream's work before the position, the last of which has this clock.
static void wait_for(Stream *stream, u64 position, const Clock &clock, const char *what) {
  if (!drain(stream, position)) return fault("%s is waited for, and never comes", what);
  host = joined(host, end_of(stream->number, position, clock));
}

// What the stream does next comes after what the clock knows.
static void come_after(Stream *stream, const Clock &clock) {
  stream->clock = joined(stream->clock, clock);
}

static void queue(Stream *stream, Work work) {
  if (!is_usable(stream, work.what)) return;
  if (stream->recording) return fault("%s is recorded, and only kernels may be", work.what);
  // What the host has waited for is done.
  if (stream->joined_host != host) come_after(stream, host);
  stream->joined_host = host;
  work.clock = stream->clock;
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
  free_range(begin, end, what);
}

// Whether work that waits will use a range.
static bool is_awaited(const Range &wanted) {
  for (const Stream *stream : streams) {
    for (const Work &work : stream->work) {
      for (const Range &range : work.uses) {
        if (range.begin < wanted.end && wanted.begin < range.end) return true;
      }
    }
  }
  return false;
}

static bool is_pointer(u32 argument_bytes) {
  return argument_bytes == READS || argument_bytes == WRITES;
}

static void run_kernel(const Launch &launch) {
  if (!alive.count(launch.function)) return fault("a kernel runs after cuModuleUnload");
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
      arguments.push_back({values[i].data(), values[i].size(), 2, nullptr, nullptr});
      continue;
    }
    u64 at, end = 0;
    memcpy(&at, values[i].data(), 8);
    if (!lives({at, at + 1}, "a kernel", false, launch.function->device)) return;
    block_of(at, &end);
    arguments.push_back({reinterpret_cast<u8 *>(at), end - at, kind == WRITES, nullptr,
                         nullptr});
  }
  running_use.what = launch.function->name;
  watch([](u64 begin, u64 end, u32 is_written) {
    touch(begin, end, is_written, running_use, running->clock);
  });
  const bool may_ask = launch.function->may_take > UNASKED;
  const u32 n = run_grid(launch.function->entry, arguments.data(), u32(arguments.size()),
                         launch.groups, launch.threads, 0, 1, true,
                         may_ask ? MOST_LAUNCHED : UNASKED);
  watch(nullptr);
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
int stub_current() { return current; }
void stub_runner(Compile compiles, void *runs, void *tells, void *watches) {
  compile = compiles;
  watch = reinterpret_cast<Watch>(watches);
  run_grid = reinterpret_cast<RunGrid>(runs);
  fault_text = reinterpret_cast<FaultText>(tells);
}
void stub_reset() {
  counts.clear();
  failures.clear();
  faults.clear();
  settings.clear();
  lost.clear();
  peers.clear();
  uses_of_memory.clear();
  host = nullptr;
}
// Does all work that waits and can be done.
void stub_finish() {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  for (Stream *stream : streams) drain(stream, stream->n_queued);
}
void stub_lose(int device) { lost[device] = FAILED; }
void stub_forget() { counts.clear(); }

int cuInit(u32 flags) {
  CALLED(false);
  if (flags) return INVALID;
  is_started = true;
  return setting("init", OK);
}
int cuDriverGetVersion(int *version) {
  *version = int(setting("version", 13000));
  return OK;
}
int cuDeviceGetCount(int *n) {
  CALLED(false);
  if (!is_started) return NOT_STARTED;
  *n = int(setting("devices", 1));
  return OK;
}
int cuDeviceGet(int *device, int number) {
  CALLED(false);
  if (number < 0 || number >= int(setting("devices", 1))) return WRONG_DEVICE;
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
int cuDeviceGetAttribute(int *value, int attribute, int) {
  CALLED(false);
  if (attribute != 97) return INVALID;
  *value = int(setting("launched", MOST_LAUNCHED));
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
  if (!retained[device]) return NO_CONTEXT;
  retained[device]--;
  return OK;
}
int cuDevicePrimaryCtxReset_v2(int device) {
  CALLED(false);
  if (!setting("broken", 0)) lost.erase(device);
  for (Stream *stream : streams) {
    if (stream->device == device) {
      stream->work.clear();
      stream->n_done = stream->n_queued;
      host = joined(host, end_of(stream->number, stream->n_queued, stream->clock));
    }
  }
  for (auto i = blocks.begin(); i != blocks.end();) {
    if (i->second.device == device) forget(i->first, i->second.end);
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
int cuCtxGetCurrent(void **context) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  *context = reinterpret_cast<void *>(u64(current + 1));
  return OK;
}
int cuDeviceCanAccessPeer(int *can, int one, int other) {
  CALLED();
  *can = one != other && setting("peers", 1);
  return OK;
}
int cuCtxEnablePeerAccess(void *context, u32 flags) {
  CALLED();
  const int other = int(reinterpret_cast<u64>(context)) - 1;
  if (flags) return INVALID;
  if (other == current) return WRONG_DEVICE;
  if (!setting("peers", 1)) return NO_PEERS;
  return peers.insert({current, other}).second ? OK : ALREADY_ALLOWED;
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
  if (const int error = unsafe(__func__)) return error;
  if (!n) return INVALID;
  if (used[current] + n > setting("memory", u64(1) << 30)) return NO_MEMORY;
  used[current] += n;
  return allocate(address, n, current);
}
int cuMemFree_v2(u64 address) {
  CALLED();
  if (const int error = unsafe(__func__)) return error;
  const auto found = blocks.find(address);
  if (found != blocks.end()) used[found->second.device] -= found->second.end - address;
  return release(address, "cuMemFree");
}
int cuMemHostAlloc(void **data, size_t n, u32 flags) {
  CALLED();
  if (const int error = unsafe(__func__)) return error;
  if (!n || flags > 1) return INVALID;
  u64 address = 0;
  const int error = allocate(&address, n, -1);
  if (!error && !flags) blocks[address].pinned_for = current;
  *data = reinterpret_cast<void *>(address);
  return error;
}
int cuMemFreeHost(void *data) {
  CALLED();
  return release(reinterpret_cast<u64>(data), "cuMemFreeHost");
}

// Memory that grows.
struct Place {
  int type, device;
};
struct Kind {
  int type, handle_types;
  Place place;
  void *meta;
  u8 flags[8];
};
struct Access {
  Place place;
  int rights;
};
static bool is_wrong(const Kind *what) {
  const Kind wanted{1, 0, {1, what->place.device}, nullptr, {}};
  return memcmp(what, &wanted, sizeof wanted) || !retained[what->place.device];
}
int cuMemGetAllocationGranularity(size_t *n, const Kind *what, int least) {
  CALLED();
  if (setting("no pages", 0)) return NOT_SUPPORTED;
  if (is_wrong(what) || least) return INVALID;
  *n = PAGE_BYTES;
  return OK;
}
int cuMemCreate(u64 *pages, size_t n, const Kind *what, u64 flags) {
  CALLED();
  if (!n || n % PAGE_BYTES || is_wrong(what) || flags) return INVALID;
  const int device = what->place.device;
  if (used[device] + n > setting("memory", u64(1) << 30)) return NO_MEMORY;
  used[device] += n;
  *pages = reinterpret_cast<u64>(new Pages{n, device, 0});
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
int cuMemAddressReserve(u64 *address, size_t n, size_t, u64, u64 flags) {
  CALLED();
  if (!n || n % PAGE_BYTES || flags) return INVALID;
  void *at = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = reinterpret_cast<u64>(at);
  if (at == MAP_FAILED) return NO_MEMORY;
  reserved[*address] = n;
  return OK;
}
int cuMemAddressFree(u64 address, size_t n) {
  CALLED();
  const auto found = reserved.find(address);
  if (found == reserved.end() || found->second != n) return INVALID;
  const auto block = blocks.lower_bound(address);
  if (block != blocks.end() && block->first < address + n) {
    fault("cuMemAddressFree of mapped addresses");
  }
  reserved.erase(found);
  munmap(reinterpret_cast<void *>(address), n);
  return OK;
}
static bool is_reserved(u64 address, size_t n) {
  auto found = reserved.upper_bound(address);
  return found != reserved.begin() &&
         (--found, address - found->first + n <= found->second);
}
int cuMemMap(u64 address, size_t n, size_t offset, u64 handle, u64 flags) {
  CALLED();
  Pages *pages = reinterpret_cast<Pages *>(handle);
  if (pages->n_bytes != n || offset || flags || !is_reserved(address, n)) {
    return INVALID;
  }
  pages->n_maps++;
  mapped[address] = pages;
  blocks[address] = {address + n, pages->device, true, false};
  return OK;
}
int cuMemSetAccess(u64 address, size_t n, const Access *access, size_t n_access) {
  CALLED();
  const auto found = blocks.find(address);
  if (found == blocks.end() || found->second.end != address + n || n_access != 1 ||
      access->place.type != 1 || access->place.device != found->second.device ||
      access->rights != 3) {
    return INVALID;
  }
  found->second.is_allowed = true;
  mprotect(reinterpret_cast<void *>(address), n, PROT_READ | PROT_WRITE);
  memset(reinterpret_cast<void *>(address), 0xa5, n);
  return OK;
}
int cuMemUnmap(u64 address, size_t n) {
  CALLED();
  const auto found = mapped.find(address);
  if (found == mapped.end() || found->second->n_bytes != n) return INVALID;
  check_pending(address, address + n, "cuMemUnmap");
  madvise(reinterpret_cast<void *>(address), n, MADV_DONTNEED);
  mprotect(reinterpret_cast<void *>(address), n, PROT_NONE);
  blocks.erase(address);
  found->second->n_maps--;
  mapped.erase(found);
  return OK;
}

// Streams and events. An event belongs to the context in which it was made.
int cuStreamCreate(void **made, u32 flags) {
  CALLED();
  if (flags != 1) fault("a stream waits for other libraries' work");
  Stream *stream = new Stream{current, {}, 0, 0};
  stream->number = u32(streams.size());
  streams.push_back(stream);
  *made = stream;
  return OK;
}
int cuStreamDestroy_v2(void *which) {
  CALLED();
  Stream *stream = static_cast<Stream *>(which);
  if (!is_usable(stream, "cuStreamDestroy")) return WRONG_HANDLE;
  stream->is_destroyed = true;
  return OK;
}
int cuStreamSynchronize(void *which) {
  CALLED();
  if (const int error = unsafe(__func__)) return error;
  Stream *stream = static_cast<Stream *>(which);
  if (!is_usable(stream, "a wait")) return WRONG_HANDLE;
  if (stream->recording) {
    fault("a stream is waited for while it records");
    return CAPTURED;
  }
  wait_for(stream, stream->n_queued, stream->clock, "a stream");
  return lost.count(stream->device) ? lost[stream->device] : OK;
}
int cuStreamQuery(void *which) {
  CALLED();
  if (const int error = unsafe(__func__)) return error;
  const Stream *stream = static_cast<Stream *>(which);
  if (!is_usable(stream, "a query")) return WRONG_HANDLE;
  if (stream->recording) {
    fault("a stream is asked while it records");
    return CAPTURED;
  }
  if (stream->n_done != stream->n_queued) return NOT_READY;
  host = joined(host, end_of(stream->number, stream->n_queued, stream->clock));
  return OK;
}
int cuEventCreate(void **made, u32 flags) {
  CALLED();
  if (flags != 2) fault("an event keeps its time");
  *made = new Event{current};
  alive.insert(*made);
  return OK;
}
int cuEventDestroy_v2(void *event) {
  CALLED();
  if (!alive.erase(event)) return WRONG_HANDLE;
  delete static_cast<Event *>(event);
  return OK;
}
int cuEventRecord(void *which, void *on) {
  CALLED();
  Stream *stream = static_cast<Stream *>(on);
  if (!alive.count(which) || !is_usable(stream, "an event")) return WRONG_HANDLE;
  Event *event = static_cast<Event *>(which);
  if (event->device != stream->device) {
    fault("an event of another card is recorded on a stream");
    return WRONG_HANDLE;
  }
  if (stream->recording) {
    fault("an event is recorded in a capture, and waited for outside of it");
    return CAPTURED;
  }
  event->stream = stream;
  event->position = stream->n_queued;
  event->clock = stream->clock;
  return OK;
}
int cuEventSynchronize(void *which) {
  CALLED();
  if (const int error = unsafe(__func__)) return error;
  if (!alive.count(which)) return WRONG_HANDLE;
  const Event event = *static_cast<Event *>(which);
  if (!event.stream) {
    fault("an event is waited for that wasn't recorded");
    return OK;
  }
  wait_for(event.stream, event.position, event.clock, "an event");
  return lost.count(event.stream->device) ? lost[event.stream->device] : OK;
}
// A device works on while the host asks: what is asked for is there the second time. An event that
// wasn't recorded stands for no work, which is done.
int cuEventQuery(void *which) {
  CALLED();
  if (!alive.count(which)) return WRONG_HANDLE;
  const Event event = *static_cast<Event *>(which);
  if (!event.stream) return OK;
  if (counts["cuEventQuery"] % 2 || !drain(event.stream, event.position)) return NOT_READY;
  wait_for(event.stream, event.position, event.clock, "an event");
  return lost.count(event.stream->device) ? lost[event.stream->device] : OK;
}
int cuStreamWaitEvent(void *which, void *until, u32 flags) {
  CALLED();
  if (!alive.count(until)) return WRONG_HANDLE;
  if (flags) return INVALID;
  const Event event = *static_cast<Event *>(until);
  Stream *stream = static_cast<Stream *>(which);
  if (!event.stream) {
    fault("a stream waits for an event that wasn't recorded");
    return OK;
  }
  come_after(stream, end_of(event.stream->number, event.position, event.clock));
  queue(stream, {[] {}, {}, "a wait", [event] {
    return drain(event.stream, event.position);
  }});
  return OK;
}

// Copies.
static u64 sum_of(u64 at, u64 n) {
  u64 sum = n;
  for (u64 i = 0; i < n; i += 8) {
    u64 word = 0;
    memcpy(&word, reinterpret_cast<void *>(at + i), std::min(n - i, u64(8)));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}

static int copy(u64 to, u64 from, u64 n, void *on, bool from_host, bool to_host, const char *what,
                bool is_between = false) {
  const Range source{from, from + n}, target{to, to + n, true};
  const int device = is_between ? -1 : static_cast<Stream *>(on)->device;
  if (!n) return INVALID;
  if (!lives(source, what, from_host, device) || !lives(target, what, to_host, device)) {
    return INVALID;
  }
  if (!from_host && !to_host && from < to + n && to < from + n) fault("%s overlaps", what);
  // What the host reads before a copy is done is nobody's data.
  if (to_host && !is_awaited(target)) memset(reinterpret_cast<void *>(to), 0x5a, n);
  const bool is_final = from_host && !is_awaited(source);
  const u64 sum = is_final ? sum_of(from, n) : 0;
  queue(static_cast<Stream *>(on), {[=] {
    if (lives(source, what, from_host, device) && lives(target, what, to_host, device)) {
      if (is_final && sum_of(from, n) != sum) fault("the host writes what %s will read", what);
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
  return copy(to, from, n, stream, false, false, "a copy between cards", true);
}
int cuMemsetD8Async(u64 at, u8 value, size_t n, void *stream) {
  CALLED();
  const Range range{at, at + n, true};
  const int device = static_cast<Stream *>(stream)->device;
  if (!lives(range, "a fill", false, device)) return INVALID;
  queue(static_cast<Stream *>(stream), {[=] {
    if (lives(range, "a fill", false, device)) memset(reinterpret_cast<void *>(at), value, n);
  }, {range}, "a fill"});
  return OK;
}

// Kernels. The code of a kernel is the path of a library, or "null".
int cuModuleLoadData(void **module, const void *image) {
  CALLED();
  if (const int error = unsafe(__func__)) return error;
  const std::string path(static_cast<const char *>(image));
  Function *made = new Function;
  made->device = current;
  alive.insert(made);
  *module = made;
  if (path.rfind("null", 0) == 0) {
    made->threads = u32(strtoul(path.c_str() + 4, nullptr, 10));
    return OK;
  }
  made->library = dlopen(path.c_str(), RTLD_NOW);
  if (!made->library) {
    fault("%s", dlerror());
    return 200;
  }
  made->entry = dlsym(made->library, "kernel_main");
  const u32 n = *static_cast<const u32 *>(dlsym(made->library, "n_arguments"));
  const u32 *bytes = static_cast<const u32 *>(dlsym(made->library, "argument_bytes"));
  made->argument_bytes.assign(bytes, bytes + n);
  made->takes = *static_cast<const u32 *>(dlsym(made->library, "launched_bytes"));
  made->threads = *static_cast<const u32 *>(dlsym(made->library, "group_threads"));
  const char *name = static_cast<const char *>(dlsym(made->library, "kernel_name"));
  made->name = names.insert("the kernel " + std::string(name)).first->c_str();
  return OK;
}
int cuModuleUnload(void *module) {
  CALLED();
  if (!alive.erase(module)) return WRONG_HANDLE;
  Function *function = static_cast<Function *>(module);
  for (const auto &[_, use] : function->launches) host_knows({use}, "cuModuleUnload");
  delete function;
  return OK;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  CALLED();
  *function = module;
  return strcmp(name, "kernel_main") ? 500 : OK;
}
int cuFuncSetAttribute(void *which, int attribute, int value) {
  CALLED();
  Function *function = static_cast<Function *>(which);
  if (!alive.count(function)) return WRONG_HANDLE;
  if (attribute != 8 || value < 0 || u32(value) > MOST_LAUNCHED) return INVALID;
  function->may_take = std::max(UNASKED, u32(value));
  return OK;
}
static void note_launch(const Launch &launch, const Stream *stream) {
  Function *function = launch.function;
  function->launches[stream->number] = {stream->number, stream->n_queued, stream->device,
                                        function->name};
}
int cuLaunchKernel(void *which, u32 x, u32 y, u32 z, u32 threads, u32 ty, u32 tz, u32 shared,
                   void *on, void **values, void **) {
  CALLED();
  Function *function = static_cast<Function *>(which);
  Stream *stream = static_cast<Stream *>(on);
  if (!alive.count(function) || !is_usable(stream, "a launch")) return WRONG_HANDLE;
  if (!x || !y || !z || x > 0x7fffffff || y > 65535 || z > 65535 || !threads || ty != 1 ||
      tz != 1 || threads > 1024 || shared > function->may_take) {
    return INVALID;
  }
  // A driver takes fewer threads than the launch bounds, and such a kernel computes nonsense.
  if (function->threads && threads != function->threads) {
    fault("a launch gives %u threads to a workgroup, and %s is compiled for %u", threads,
          function->name, function->threads);
    return INVALID;
  }
  if (shared < function->takes) {
    fault("a launch gives %u bytes of shared memory, and the kernel takes %u", shared,
          function->takes);
  }
  if (function->device != stream->device || stream->device != current) {
    fault("a kernel of card %d starts on a stream of card %d, in a context of card %d",
          function->device, stream->device, current);
    return WRONG_HANDLE;
  }
  Launch launch{function, {x, y, z}, threads, {}};
  std::vector<Range> uses;
  for (size_t i = 0; i < function->argument_bytes.size(); i++) {
    const u32 n = function->argument_bytes[i];
    const u8 *value = static_cast<const u8 *>(values[i]);
    launch.arguments.emplace_back(value, value + (is_pointer(n) ? 8 : n));
    u64 at, end = 0;
    if (!is_pointer(n)) continue;
    memcpy(&at, value, 8);
    if (!lives({at, at + 1}, "a launch", false, stream->device)) return INVALID;
    block_of(at, &end);
    uses.push_back({at, end, n == WRITES});
  }
  if (stream->recording) {
    stream->recording->launches.push_back(launch);
    counts["recorded"]++;
    return OK;
  }
  queue(stream, {[launch] { run_kernel(launch); }, uses, "a kernel", nullptr, true});
  note_launch(launch, stream);
  return OK;
}
struct Attribute {
  int id;
  char pad[4];
  int value[16];
};
struct Config {
  u32 sizes[6], shared_bytes;
  void *stream;
  const Attribute *attributes;
  u32 n_attributes;
};
int cuLaunchKernelEx(const Config *config, void *function, void **values, void **more) {
  {
    CALLED();
    if (config->n_attributes != 1 || config->attributes->id != 6 ||
        config->attributes->value[0] != 1) {
      return INVALID;
    }
    if (setting("version", 13000) < 12030 && static_cast<Stream *>(config->stream)->recording) {
      fault("a kernel that starts early is recorded by a driver that can't do that");
    }
  }
  const u32 *s = config->sizes;
  return cuLaunchKernel(function, s[0], s[1], s[2], s[3], s[4], s[5], config->shared_bytes,
                        config->stream, values, more);
}
int cuStreamBeginCapture_v2(void *which, int mode) {
  CALLED();
  Stream *stream = static_cast<Stream *>(which);
  if (stream->recording || mode < 0 || mode > 2) return INVALID;
  settings["strict captures"] += mode != 2;
  stream->captures_strictly = mode != 2;
  stream->recording = new Graph;
  return OK;
}
int cuStreamEndCapture(void *which, void **graph) {
  CALLED();
  Stream *stream = static_cast<Stream *>(which);
  *graph = stream->recording;
  stream->recording = nullptr;
  settings["strict captures"] -= stream->captures_strictly;
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
  const int device = static_cast<Stream *>(on)->device;
  if (device != current) {
    fault("a graph starts on a stream of card %d, in a context of card %d", device, current);
    return WRONG_HANDLE;
  }
  const Graph graph = setting("runs", 1) ? *static_cast<Graph *>(which) : Graph{};
  std::vector<Range> uses;
  for (const Launch &launch : graph.launches) {
    for (size_t i = 0; i < launch.arguments.size(); i++) {
      u64 at, end = 0;
      if (!is_pointer(launch.function->argument_bytes[i])) continue;
      memcpy(&at, launch.arguments[i].data(), 8);
      if (!lives({at, at + 1}, "a graph", false, device)) return INVALID;
      block_of(at, &end);
      uses.push_back({at, end, launch.function->argument_bytes[i] == WRITES});
    }
  }
  queue(static_cast<Stream *>(on), {[graph] {
    for (const Launch &launch : graph.launches) run_kernel(launch);
  }, uses, "a graph", nullptr, true});
  for (const Launch &launch : graph.launches) note_launch(launch, static_cast<Stream *>(on));
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
  *major = int(setting("nvrtc", 129)) / 10;
  *minor = int(setting("nvrtc", 129)) % 10;
  return OK;
}
int nvrtcGetNumSupportedArchs(int *n) {
  *n = int(setting("chips known", 7));
  return OK;
}
int nvrtcGetSupportedArchs(int *chips) {
  const int known[] = {75, 80, 86, 89, 90, 100, 120};
  memcpy(chips, known, setting("chips known", 7) * sizeof *known);
  return OK;
}
int nvrtcCreateProgram(void **made, const char *text, const char *, int, void *, void *) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
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
  const size_t at = program->text.find("#define WG ");
  const std::string none = "null" + (at == std::string::npos ? "" : program->text.substr(at + 10, 5));
  const std::string made = compile ? compile(program->text.c_str(), all.c_str()) : none;
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
