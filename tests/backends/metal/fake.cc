// A small Objective-C runtime with the classes of Metal that the backend uses, over the host's
// memory. objc_msgSend jumps to the method, as the real one does, so that wrong types of arguments
// give wrong numbers. Every message is logged, and every object counted.
//
// Command buffers run late: when someone waits for one, or asks a few times whether it is done.
// Dispatches between two barriers run in reverse order.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "types.h"

namespace {

using u64 = uint64_t;
struct Object;
using Method = void (*)();

struct Size {
  u64 width, height, depth;
};

struct Object {
  std::string kind;
  long n_refs = 1;
  std::string text;
  // MTLBuffer
  unsigned char *data = nullptr;
  u64 n_bytes = 0;
  bool owns = false;
  // MTLFunction, MTLComputePipelineState
  void (*entry)(const emulator::Argument *) = nullptr;
  // NSArray, and what an object keeps
  std::vector<Object *> members;
  // MTLCommandBuffer
  u64 status = 0, n_asked = 0;
  std::vector<std::function<void()>> commands;
  Object *error = nullptr;
  // Encoders
  Object *pipeline = nullptr;
  bool is_open = false;
  std::map<u64, emulator::Argument> arguments;
  std::map<u64, std::string> structs;
  std::vector<std::function<void()>> together;
  // NSError
  int64_t code = 0;
};

// The memory of a workgroup.
constexpr u32 SHARED_BYTES = 32 << 10;

struct Machine {
  std::string log;
  std::map<std::string, long> live;
  std::deque<Object *> committed;
  std::map<std::string, Object *> classes;
  void *(*compile)(const char *text) = nullptr;
  u32 (*run_grid)(void (*)(const emulator::Argument *), emulator::Argument *, u32, const u32 *, u32,
                  u32, u32, bool, u32) = nullptr;
  std::string compiler_says, interrupted, awaited;
  void (*meanwhile)() = nullptr;
  u64 n_left = 0;
  int64_t fail_code = 0;
  bool unified = true, family = true;
  u64 n_devices = 1, allocated = 0, most_bytes = u64(1) << 33, n_dispatches = 0, n_barriers = 0;
};

// Each thread has pools of its own.
thread_local std::vector<std::vector<Object *>> pools;

Machine &machine() {
  static Machine *made = new Machine;
  return *made;
}

void fail(const char *what) {
  machine().log += std::string("FAULT ") + what + "\n";
  fprintf(stderr, "fake Metal: %s\n", what);
}

Object *make(const std::string &kind) {
  Object *made = new Object;
  made->kind = kind;
  machine().live[kind]++;
  return made;
}

Object *retain(Object *object) {
  if (object) object->n_refs++;
  return object;
}

void release(Object *object) {
  if (!object) return;
  if (--object->n_refs > 0) return;
  if (object->n_refs < 0) return fail("released too often");
  if (object->is_open) fail("an encoder that didn't end was released");
  if (object->owns) {
    machine().allocated -= object->n_bytes;
    free(object->data);
  }
  for (Object *member : object->members) release(member);
  release(object->error);
  machine().live[object->kind]--;
  object->kind += " (freed)";  // the memory stays, so that later use is found
}

Object *autoreleased(Object *object) {
  if (pools.empty()) fail("no autorelease pool");
  else pools.back().push_back(object);
  return object;
}

Object *string_of(const std::string &text) {
  Object *made = make("NSString");
  made->text = text;
  return made;
}

Object *error_of(const std::string &text, int64_t code) {
  Object *made = make("NSError");
  made->text = text;
  made->code = code;
  return made;
}

void run_committed(Object *until) {
  Machine &m = machine();
  bool wanted = false;
  for (Object *each : m.committed) wanted = wanted || each == until;
  while (wanted && !m.committed.empty()) {
    Object *next = m.committed.front();
    m.committed.pop_front();
    if (m.fail_code) {
      next->status = 5;
      next->error = error_of("planted", m.fail_code);
    } else {
      for (auto &command : next->commands) command();
      next->status = 4;
    }
    next->commands.clear();
    wanted = next != until;
    release(next);
  }
}

void end_together(Object *encoder) {
  Object *buffer = encoder->members[0];
  auto &together = encoder->together;
  buffer->commands.insert(buffer->commands.end(), together.rbegin(), together.rend());
  together.clear();
}

// Methods. `_` is the selector.
using Id = Object *;
using Sel = const char *;

Id any_new(Id self, Sel) { return make(self->text); }
u64 array_count(Id self, Sel) { return self->members.size(); }
Id array_at(Id self, Sel, u64 i) { return self->members.at(i); }
Id string_with(Id, Sel, const char *text) { return autoreleased(string_of(text)); }
const char *string_text(Id self, Sel) { return self->text.c_str(); }
Id error_text(Id self, Sel) { return autoreleased(string_of(self->text)); }
int64_t error_code(Id self, Sel) { return self->code; }

Id device_name(Id, Sel) { return autoreleased(string_of("Fake M1")); }
bool device_unified(Id, Sel) { return machine().unified; }
bool device_family(Id, Sel, int64_t family) { return machine().family && family == 1007; }
u64 device_working_set(Id, Sel) { return machine().most_bytes; }
u64 device_allocated(Id, Sel) { return machine().allocated; }
u64 device_longest(Id, Sel) { return machine().most_bytes / 2; }
u64 device_shared(Id, Sel) { return SHARED_BYTES; }
Id device_queue(Id, Sel) { return make("MTLCommandQueue"); }

Id device_buffer(Id, Sel, u64 n, u64 options) {
  if (options) fail("a buffer isn't shared");
  if (n == 0 || n > machine().most_bytes / 2) return nullptr;
  Id made = make("MTLBuffer");
  made->data = static_cast<unsigned char *>(aligned_alloc(16384, (n + 16383) / 16384 * 16384));
  memset(made->data, 0, n);
  made->n_bytes = n;
  made->owns = true;
  machine().allocated += n;
  return made;
}

Id device_wrap(Id, Sel, void *data, u64 n, u64 options, void *deallocator) {
  if (options || deallocator) fail("options of wrapped memory");
  const u64 page = u64(sysconf(_SC_PAGESIZE));
  if (u64(data) % page || n % page) return nullptr;  // as Metal does
  Id made = make("MTLBuffer");
  made->data = static_cast<unsigned char *>(data);
  made->n_bytes = n;
  return made;
}

Id device_library(Id, Sel, Id source, Id options, Id *error) {
  if (options->kind != "MTLCompileOptions") fail("options of a library");
  if (options->text != "precise 131076 ") fail("mathematics and language of a library");
  void *entry = machine().compile(source->text.c_str());
  if (!entry) {
    *error = autoreleased(error_of(machine().compiler_says, 3));
    return nullptr;
  }
  Id made = make("MTLLibrary");
  memcpy(&made->entry, &entry, sizeof entry);
  return made;
}

void options_fast(Id self, Sel, bool fast) { self->text += fast ? "fast " : "precise "; }
void options_language(Id self, Sel, u64 n) { self->text += std::to_string(n) + " "; }

Id library_function(Id self, Sel, Id name) {
  if (name->text != "kernel_main") return nullptr;
  Id made = make("MTLFunction");
  made->entry = self->entry;
  return made;
}

Id device_pipeline(Id, Sel, Id function, Id *) {
  Id made = make("MTLComputePipelineState");
  made->entry = function->entry;
  return made;
}

u64 pipeline_most(Id, Sel) { return 1024; }
void *buffer_contents(Id self, Sel) { return self->data; }

Id queue_commands(Id, Sel) { return autoreleased(make("MTLCommandBuffer")); }

Id encoder_of(Id buffer, const char *kind) {
  if (buffer->status) fail("encodes after commit");
  Id made = make(kind);
  made->members.push_back(retain(buffer));
  made->is_open = true;
  return autoreleased(made);
}

Id buffer_compute(Id self, Sel, u64 type) {
  if (type != 1) fail("the encoder isn't concurrent");
  return encoder_of(self, "MTLComputeCommandEncoder");
}

Id buffer_blit(Id self, Sel) { return encoder_of(self, "MTLBlitCommandEncoder"); }

void buffer_commit(Id self, Sel) {
  if (self->status) fail("commits twice");
  self->status = 2;
  machine().committed.push_back(retain(self));
}

void buffer_wait(Id self, Sel) {
  if (!self->status) fail("waits for what wasn't committed");
  run_committed(self);
}

u64 buffer_status(Id self, Sel) {
  if (self->status == 2 && ++self->n_asked > 3) run_committed(self);
  return self->status;
}

Id buffer_error(Id self, Sel) { return self->error; }

void compute_pipeline(Id self, Sel, Id pipeline) { self->pipeline = pipeline; }

void compute_buffer(Id self, Sel, Id buffer, u64 offset, u64 i) {
  if (buffer->kind != "MTLBuffer" || i > 30 || offset >= buffer->n_bytes) fail("an argument");
  self->members[0]->members.push_back(retain(buffer));  // as command buffers do
  self->structs.erase(i);
  self->arguments[i] = {buffer->data + offset, buffer->n_bytes - offset, 1, nullptr};
}

void compute_bytes(Id self, Sel, const char *bytes, u64 n, u64 i) {
  if (i > 30 || n > 4096) fail("bytes of an argument");
  self->arguments.erase(i);
  self->structs[i] = std::string(bytes, n);
}

void compute_barrier(Id self, Sel, u64 scope) {
  if (scope != 1) fail("scope of a barrier");
  machine().n_barriers++;
  end_together(self);
}

void compute_dispatch(Id self, Sel, Size groups, Size threads) {
  if (!self->pipeline) return fail("no pipeline");
  if (threads.height != 1 || threads.depth != 1 || threads.width > 1024) fail("threads");
  machine().n_dispatches++;
  auto arguments = self->arguments;
  auto structs = self->structs;
  auto entry = self->pipeline->entry;
  self->together.push_back([=]() mutable {
    std::vector<emulator::Argument> all(31);
    for (auto &[i, argument] : arguments) all[i] = argument;
    for (auto &[i, bytes] : structs) {
      all[i] = {reinterpret_cast<unsigned char *>(&bytes[0]), bytes.size(), 2, nullptr};
    }
    const u32 grid[3] = {u32(groups.width), u32(groups.height), u32(groups.depth)};
    if (machine().run_grid(entry, all.data(), u32(all.size()), grid, u32(threads.width), 0, 1,
                           false, SHARED_BYTES)) {
      fail("a kernel's threads wait for ever, or take too much memory of a workgroup");
    }
  });
}

void compute_end(Id self, Sel) {
  end_together(self);
  self->is_open = false;
}

void blit_copy(Id self, Sel, Id from, u64 from_at, Id to, u64 to_at, u64 n) {
  if (from_at + n > from->n_bytes || to_at + n > to->n_bytes) return fail("a copy out of bounds");
  for (Id each : {from, to}) self->members[0]->members.push_back(retain(each));
  self->together.push_back([=] { memcpy(to->data + to_at, from->data + from_at, n); });
}

struct Entry {
  const char *kind, *selector, *types;
  Method method;
};

// The types as the headers of Metal and Foundation declare them, written like the compiler's type
// encodings on 64-bit Arm.
#define METHOD(kind, selector, types, function) \
  {kind, selector, types, reinterpret_cast<Method>(function)}
const Entry METHODS[] = {
    METHOD("class", "new", "@", any_new),
    METHOD("class", "stringWithUTF8String:", "@ r*", string_with),
    METHOD("NSArray", "count", "Q", array_count),
    METHOD("NSArray", "objectAtIndex:", "@ Q", array_at),
    METHOD("NSString", "UTF8String", "r*", string_text),
    METHOD("NSError", "localizedDescription", "@", error_text),
    METHOD("NSError", "code", "q", error_code),
    METHOD("MTLDevice", "name", "@", device_name),
    METHOD("MTLDevice", "hasUnifiedMemory", "B", device_unified),
    METHOD("MTLDevice", "supportsFamily:", "B q", device_family),
    METHOD("MTLDevice", "recommendedMaxWorkingSetSize", "Q", device_working_set),
    METHOD("MTLDevice", "currentAllocatedSize", "Q", device_allocated),
    METHOD("MTLDevice", "maxBufferLength", "Q", device_longest),
    METHOD("MTLDevice", "maxThreadgroupMemoryLength", "Q", device_shared),
    METHOD("MTLDevice", "newCommandQueue", "@", device_queue),
    METHOD("MTLDevice", "newBufferWithLength:options:", "@ Q Q", device_buffer),
    METHOD("MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:", "@ ^v Q Q @?",
           device_wrap),
    METHOD("MTLDevice", "newLibraryWithSource:options:error:", "@ @ @ ^@", device_library),
    METHOD("MTLDevice", "newComputePipelineStateWithFunction:error:", "@ @ ^@", device_pipeline),
    METHOD("MTLCompileOptions", "setFastMathEnabled:", "v B", options_fast),
    METHOD("MTLCompileOptions", "setLanguageVersion:", "v Q", options_language),
    METHOD("MTLLibrary", "newFunctionWithName:", "@ @", library_function),
    METHOD("MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", "Q", pipeline_most),
    METHOD("MTLBuffer", "contents", "^v", buffer_contents),
    METHOD("MTLCommandQueue", "commandBuffer", "@", queue_commands),
    METHOD("MTLCommandBuffer", "computeCommandEncoderWithDispatchType:", "@ Q", buffer_compute),
    METHOD("MTLCommandBuffer", "blitCommandEncoder", "@", buffer_blit),
    METHOD("MTLCommandBuffer", "commit", "v", buffer_commit),
    METHOD("MTLCommandBuffer", "waitUntilCompleted", "v", buffer_wait),
    METHOD("MTLCommandBuffer", "status", "Q", buffer_status),
    METHOD("MTLCommandBuffer", "error", "@", buffer_error),
    METHOD("MTLComputeCommandEncoder", "setComputePipelineState:", "v @", compute_pipeline),
    METHOD("MTLComputeCommandEncoder", "setBuffer:offset:atIndex:", "v @ Q Q", compute_buffer),
    METHOD("MTLComputeCommandEncoder", "setBytes:length:atIndex:", "v r^v Q Q", compute_bytes),
    METHOD("MTLComputeCommandEncoder", "memoryBarrierWithScope:", "v Q", compute_barrier),
    METHOD("MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:",
           "v {?=QQQ} {?=QQQ}", compute_dispatch),
    METHOD("MTLComputeCommandEncoder", "endEncoding", "v", compute_end),
    METHOD("MTLBlitCommandEncoder", "endEncoding", "v", compute_end),
    METHOD("MTLBlitCommandEncoder", "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",
           "v @ Q @ Q Q", blit_copy),
};

u64 nothing(Id, Sel) { return 0; }

} // namespace

extern "C" {

Method fake_lookup(Id self, Sel selector) {
  if (!self) return reinterpret_cast<Method>(nothing);
  machine().log += self->kind + " " + selector + "\n";
  // Any method may autorelease something.
  if (pools.empty()) fail((std::string(selector) + " outside of a pool").c_str());
  if (machine().interrupted == selector && --machine().n_left == 0) raise(SIGINT);
  if (machine().awaited == selector) {
    machine().awaited.clear();
    machine().meanwhile();
  }
  for (const Entry &each : METHODS) {
    if (self->kind == each.kind && !strcmp(selector, each.selector)) return each.method;
  }
  fail((self->kind + " has no method " + selector).c_str());
  return reinterpret_cast<Method>(nothing);
}

asm(R"(.text
.globl objc_msgSend
.type objc_msgSend, @function
objc_msgSend:
 push %rdi
 push %rsi
 push %rdx
 push %rcx
 push %r8
 push %r9
 sub $8,%rsp
 call fake_lookup@PLT
 add $8,%rsp
 pop %r9
 pop %r8
 pop %rcx
 pop %rdx
 pop %rsi
 pop %rdi
 jmp *%rax
)");
void objc_msgSend();

Id objc_getClass(const char *name) {
  Id &found = machine().classes[name];
  if (!found) {
    found = make("class");
    found->text = name;
  }
  return found;
}

Sel sel_registerName(const char *name) {
  static std::map<std::string, std::string> *all = new std::map<std::string, std::string>;
  return all->emplace(name, name).first->second.c_str();
}

Id objc_retain(Id object) { return retain(object); }
void objc_release(Id object) {
  if (pools.empty()) fail("a release outside of a pool");
  release(object);
}

void *objc_autoreleasePoolPush() {
  pools.emplace_back();
  return reinterpret_cast<void *>(pools.size());
}

void objc_autoreleasePoolPop(void *pool) {
  if (u64(pool) != pools.size()) fail("pools end in another order");
  std::vector<Id> ended = pools.back();
  pools.pop_back();
  for (auto each = ended.rbegin(); each != ended.rend(); ++each) release(*each);
}

Id MTLCopyAllDevices() {
  Id array = make("NSArray");
  for (u64 i = 0; i < machine().n_devices; i++) array->members.push_back(make("MTLDevice"));
  return array;
}

// For the tests.
void fake_begin(void *(*compile)(const char *), void *run_grid) {
  machine().compile = compile;
  memcpy(&machine().run_grid, &run_grid, sizeof run_grid);
}
void fake_says(const char *text) { machine().compiler_says = text; }
void fake_machine(u64 n_devices, bool unified, bool family, u64 most_bytes) {
  Machine &m = machine();
  m.n_devices = n_devices, m.unified = unified, m.family = family, m.most_bytes = most_bytes;
}
void fake_fail(int64_t code) { machine().fail_code = code; }
void fake_interrupt(const char *selector, u64 n) {
  machine().interrupted = selector, machine().n_left = n;
}
void fake_meanwhile(const char *selector, void (*work)()) {
  machine().awaited = selector, machine().meanwhile = work;
}
const char *fake_log() { return machine().log.c_str(); }
void fake_forget() {
  machine().log.clear();
  machine().n_dispatches = machine().n_barriers = 0;
}
u64 fake_dispatches() { return machine().n_dispatches; }
u64 fake_barriers() { return machine().n_barriers; }
long fake_live(const char *kind) { return machine().live[kind]; }
const char *fake_types(const char *selector) {
  for (const Entry &each : METHODS) {
    if (!strcmp(selector, each.selector)) return each.types;
  }
  return "";
}
}
