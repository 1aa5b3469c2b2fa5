// Runs the threads of workgroups as fibers, one workgroup after another. A thread runs until it
// meets a barrier or another thread of its subgroup; then the next one runs, in an order that the
// caller chooses. What is wrong is collected as text.
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "types.h"

namespace emulator {

constexpr u32 SUBGROUP_SIZE = 32, WARPGROUP_SIZE = 128;
// Words that a thread may give to its subgroup at once.
constexpr u32 MOST_GIVEN = 16;

enum class State { ready, at_barrier, in_subgroup, in_warpgroup, at_phase, done };

struct Copy {
  void *to;
  Source from;
  SharedCell *cell;
  u32 group;
};

#ifdef __x86_64__
// Where a thread's registers are, on its stack. ucontext.h would ask the system at each switch.
using Context = void *;
extern "C" void switch_context(Context *from, Context *to);
asm(R"(.text
.globl switch_context
switch_context:
 push %rbp
 push %rbx
 push %r12
 push %r13
 push %r14
 push %r15
 mov %rsp,(%rdi)
 mov (%rsi),%rsp
 pop %r15
 pop %r14
 pop %r13
 pop %r12
 pop %rbx
 pop %rbp
 ret
)");

static void make_context(Context *context, std::vector<char> &stack, void (*start)()) {
  const auto end = reinterpret_cast<uintptr_t>(stack.data() + stack.size()) & ~uintptr_t(15);
  void **top = reinterpret_cast<void **>(end);
  *--top = nullptr;
  *--top = reinterpret_cast<void *>(start);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  *context = top;
}
#else
using Context = ucontext_t;

static void switch_context(Context *from, Context *to) { swapcontext(from, to); }

static void make_context(Context *context, std::vector<char> &stack, void (*start)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack.data();
  context->uc_stack.ss_size = stack.size();
  context->uc_link = nullptr;
  makecontext(context, start, 0);
}
#endif

struct Fiber {
  Context context;
  State state = State::done;
  const char *file = nullptr;
  int line = 0;
  u64 calls = 0;
  int is_max = 0;
  float value = 0;
  u32 given[MOST_GIVEN] = {};
  u32 n_shared = 0, copy_group = 0, n_fences = 0, n_shown = 0, n_meets = 0, waits_for = 0;
  u32 parity = 0;
  bool in_order = false;
  std::vector<Copy> copies;
  std::vector<u32> knows, seen;
  std::vector<char> stack;
};

constexpr size_t MOST_FAULTS = 20;
// A kernel with wrong numbers may loop for hours. After so many faults it is given up.
constexpr u64 ENOUGH_FAULTS = 10000000;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t STACK_BYTES = 512 << 10;
#else
constexpr size_t STACK_BYTES = 128 << 10;
#endif

using Kernel = void (*)(const Argument *);

struct Launch {
  Kernel kernel;
  const Argument *arguments;
  std::vector<Shared> shared;
  std::vector<std::vector<unsigned char>> memory;
  std::vector<std::vector<SharedCell>> cells;
  bool checks;
  u64 shared_bytes, most_shared;
};

extern "C" Thread thread;
Thread thread;

static std::vector<Fiber> fibers;
static std::vector<std::string> faults;
static u64 n_faults;
static Launch launch;
static Fiber *current;
static Context scheduler;
// What the threads of a subgroup gave when they met last, by the thread's number in the workgroup.
static std::vector<u32> met;

static void tell(const char *format, ...) {
  char text[400];
  va_list rest;
  va_start(rest, format);
  vsnprintf(text, sizeof text, format, rest);
  va_end(rest);
  faults.push_back(text);
}

#include "calls.h"

static void yield(State state, const char *file, int line) {
  Fiber &own = *current;
  own.calls = number_of_calls(own.stack);
  own.state = state;
  own.file = file;
  own.line = line;
  switch_context(&own.context, &scheduler);
}

extern "C" void fault(const char *what, const char *array, u64 at, u32 other) {
  if (++n_faults >= ENOUGH_FAULTS) yield(State::done, nullptr, 0);
  if (n_faults > MOST_FAULTS) return;
  const u32 n = thread.n_threads;
  char with[80] = "";
  if (other == MANY) snprintf(with, sizeof with, " (several threads)");
  else if (other) {
    snprintf(with, sizeof with, " (thread %u of workgroup %u)", (other - 1) % n, (other - 1) / n);
  }
  tell("thread %u of workgroup (%u,%u,%u), after %u barriers: %s %s[%llu]%s", thread.lane,
       thread.group[0], thread.group[1], thread.group[2], thread.epoch, what, array,
       (unsigned long long)at, with);
}

extern "C" void barrier(const char *file, int line) { yield(State::at_barrier, file, line); }

extern "C" float in_subgroup(float x, int is_max, const char *file, int line) {
  current->value = x;
  current->is_max = is_max;
  yield(State::in_subgroup, file, line);
  return current->value;
}

// Tells where the last threads of the workgroup are fewer than an instruction takes.
static void tell_missing(u32 size, const char *file, int line) {
  if (thread.lane / size * size + size > thread.n_threads) {
    fault("not all threads are there that meet at", file, u64(line), 0);
  }
}

// Gives `words` to the subgroup and waits until all of its threads did so.
extern "C" void meet(const u32 *words, u32 n, const char *file, int line) {
  tell_missing(SUBGROUP_SIZE, file, line);
  memcpy(current->given, words, n * sizeof(u32));
  current->is_max = 0;
  yield(State::in_subgroup, file, line);
}

// The same with the threads of four neighbouring subgroups.
extern "C" void meet_warpgroup(const u32 *words, u32 n, const char *file, int line) {
  tell_missing(WARPGROUP_SIZE, file, line);
  memcpy(current->given, words, n * sizeof(u32));
  yield(State::in_warpgroup, file, line);
}

// What the threads of a subgroup did before they met comes before what they do after it.
extern "C" void meet_in_order(const char *file, int line) {
  current->in_order = true;
  meet(nullptr, 0, file, line);
  current->in_order = false;
  thread.meets = ++current->n_meets;
}

// What this thread stored so far can be read by matrix units after a barrier.
extern "C" void pass_fence() { thread.fences = ++current->n_fences; }

// How many fences the thread with this number had passed before the last barrier.
extern "C" u32 shown_fences_of(u32 number) {
  return fibers[(number - 1) % thread.n_threads].n_shown;
}

// What thread `lane` of this subgroup gave when they met.
extern "C" const u32 *given_by(u32 lane) {
  return &met[(thread.lane / SUBGROUP_SIZE * SUBGROUP_SIZE + lane) * MOST_GIVEN];
}

extern "C" Shared shared_array(u64 n, u64 element_bytes, const char *name) {
  const u32 i = current->n_shared++;
  if (i == launch.shared.size()) {
    launch.shared_bytes += n * element_bytes;
    if (launch.shared_bytes > launch.most_shared) {
      fault("more bytes than a workgroup has, up to and with", name, launch.shared_bytes, 0);
    }
    launch.memory.emplace_back(n * element_bytes + 16, 0xff);
    launch.cells.emplace_back(launch.checks ? n : 0, SharedCell{});
    const auto start = reinterpret_cast<uintptr_t>(launch.memory.back().data());
    launch.shared.push_back({reinterpret_cast<void *>((start + 15) & ~uintptr_t(15)),
                             launch.cells.back().data()});
  }
  return launch.shared[i];
}

// A copy may write at any time until its thread waits for it, so others must not read or write
// there meanwhile.
extern "C" void copy_later(void *to, Source from, SharedCell *cell, const char *name, u64 at) {
  if (cell) {
    write_shared(*cell, name, at);
    cell->copier = thread.number;
  }
  read_source(from, 16);
  current->copies.push_back({to, from, cell, current->copy_group});
}

extern "C" void end_group_of_copies() { current->copy_group++; }

// Copies arrive as late as they may: when their thread waits for them.
extern "C" void wait_for_copies(u32 n_left) {
  std::vector<Copy> later;
  for (const Copy &copy : current->copies) {
    if (copy.group + n_left < current->copy_group) {
      tell_written(copy.from, 16);
      memcpy(copy.to, copy.from.data, 16);
      if (copy.cell) {
        copy.cell->copier = 0;
        write_shared(*copy.cell, "copied", 0);
      }
    } else {
      later.push_back(copy);
    }
  }
  current->copies = later;
}

#include "matrices.h"
#include "phases.h"

static void run_fiber() {
  launch.kernel(launch.arguments);
  if (!current->copies.empty()) tell("thread %u ends and hasn't waited for a copy", thread.lane);
  yield(State::done, nullptr, 0);
}

static void enter(u32 lane) {
  current = &fibers[lane];
  thread.lane = lane;
  thread.fences = current->n_fences;
  thread.meets = current->n_meets;
  const u32 group = thread.group[0] + thread.n_groups[0] * (thread.group[1] + thread.n_groups[1]
                                                            * thread.group[2]);
  thread.number = group * thread.n_threads + lane + 1;
  switch_context(&scheduler, &current->context);
}

// Whether both threads are in the same state at the same place.
static bool are_together(const Fiber &one, const Fiber &other) {
  return other.state == one.state && other.line == one.line && other.file == one.file
         && other.calls == one.calls;
}

// Gives the threads of `size` neighbours that have all met in `state` what they make together;
// whether there were any.
static bool meet_together(State state, u32 size) {
  bool any = false;
  for (u32 first = 0; first < thread.n_threads; first += size) {
    const u32 end = std::min(first + size, thread.n_threads);
    const Fiber &one = fibers[first];
    bool all = one.state == state;
    float result = one.value;
    for (u32 i = first + 1; i < end && all; i++) {
      const Fiber &other = fibers[i];
      all = are_together(one, other);
      result = one.is_max ? (other.value > result ? other.value : result) : result + other.value;
    }
    if (all && one.in_order && launch.checks) tell_each_other(first, end);
    for (u32 i = first; i < end && all; i++) {
      memcpy(&met[i * MOST_GIVEN], fibers[i].given, sizeof fibers[i].given);
      fibers[i].value = result;
      fibers[i].state = State::ready;
    }
    any = any || all;
  }
  return any;
}

// Whether all threads have met at one barrier, or all have ended. Otherwise tells what they do.
static bool meet_at_barrier() {
  const Fiber &one = fibers[0];
  for (u32 i = 1; i < thread.n_threads; i++) {
    const Fiber &other = fibers[i];
    if (are_together(one, other)) continue;
    const char *names[] = {"is ready", "waits at a barrier", "waits for its subgroup",
                           "waits for its warpgroup", "waits for a phase", "has ended"};
    tell("workgroup (%u,%u,%u), deadlock after %u barriers: thread 0 %s (%s:%d), thread %u %s "
         "(%s:%d)%s", thread.group[0], thread.group[1], thread.group[2], thread.epoch,
         names[int(one.state)], one.file ? one.file : "-", one.line, i, names[int(other.state)],
         other.file ? other.file : "-", other.line,
         other.line == one.line && other.calls != one.calls ? " by another call" : "");
    return false;
  }
  const bool is_stuck = one.state == State::in_subgroup || one.state == State::in_warpgroup;
  if (is_stuck) tell("deadlock in a subgroup");
  return !is_stuck;
}

static u32 next_random(u32 &seed) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

static void shuffle(std::vector<u32> &order, u32 &seed) {
  for (size_t i = order.size() - 1; i > 0; i--) {
    std::swap(order[i], order[next_random(seed) % (i + 1)]);
  }
}

static void start_fibers() {
  for (u32 i = 0; i < thread.n_threads; i++) {
    Fiber &fiber = fibers[i];
    fiber.state = State::ready;
    fiber.file = nullptr;
    fiber.line = 0;
    fiber.n_shared = fiber.copy_group = fiber.n_fences = fiber.n_shown = fiber.n_meets = 0;
    fiber.in_order = false;
    fiber.copies.clear();
    fiber.knows.clear();
    fiber.seen.clear();
    fiber.stack.resize(STACK_BYTES);
#ifdef __SANITIZE_ADDRESS__
    // A thread never returns from its first function, which leaves marks on its stack.
    __asan_unpoison_memory_region(fiber.stack.data(), STACK_BYTES);
#endif
    make_context(&fiber.context, fiber.stack, run_fiber);
  }
}

// Shared arrays are made anew for the next workgroup, and hold nothing.
static void forget_shared() {
  launch.shared.clear();
  launch.memory.clear();
  launch.cells.clear();
  launch.shared.reserve(32);
  launch.shared_bytes = 0;
}

// Runs the workgroup in `thread`; false after a deadlock or too many faults.
static bool run_group(u32 order_kind, u32 &seed) {
  start_fibers();
  if (launch.checks) forget_shared();
  forget_phases();
  thread.epoch = 0;
  std::vector<u32> order(thread.n_threads);
  for (u32 i = 0; i < thread.n_threads; i++) {
    order[i] = order_kind == 1 ? thread.n_threads - 1 - i : i;
  }
  while (true) {
    if (order_kind == 2) shuffle(order, seed);
    for (const u32 lane : order) {
      if (fibers[lane].state == State::ready) enter(lane);
      if (n_faults >= ENOUGH_FAULTS) return false;
    }
    if (meet_together(State::in_subgroup, SUBGROUP_SIZE)) continue;
    if (meet_together(State::in_warpgroup, WARPGROUP_SIZE) || end_phases()) continue;
    if (tell_endless_phase() || !meet_at_barrier()) return false;
    if (fibers[0].state == State::done) {
      tell_copies_under_way();
      return true;
    }
    thread.epoch++;
    for (u32 i = 0; i < thread.n_threads; i++) {
      fibers[i].state = State::ready;
      fibers[i].n_shown = fibers[i].n_fences;
    }
  }
}

struct Span {
  u64 begin, end;
  bool is_written;
  std::vector<Cell> cells;
};

// Gives arguments that share memory with one that is written the same cells.
static std::vector<Span> make_cells(Argument *arguments, u32 n) {
  std::vector<Span> spans;
  for (u32 i = 0; i < n; i++) {
    if (arguments[i].kind == 2) continue;
    Span own{u64(arguments[i].data), u64(arguments[i].data) + arguments[i].n_bytes,
             arguments[i].kind == 1, {}};
    for (size_t k = 0; k < spans.size();) {
      if (own.begin < spans[k].end && spans[k].begin < own.end) {
        own.begin = own.begin < spans[k].begin ? own.begin : spans[k].begin;
        own.end = own.end > spans[k].end ? own.end : spans[k].end;
        own.is_written = own.is_written || spans[k].is_written;
        spans.erase(spans.begin() + long(k));
        k = 0;
      } else {
        k++;
      }
    }
    spans.push_back(own);
  }
  for (Span &span : spans) {
    if (span.is_written) span.cells.resize((span.end - span.begin) / CELL_BYTES + 1);
  }
  for (u32 i = 0; i < n; i++) {
    arguments[i].cells = nullptr;
    for (Span &span : spans) {
      const u64 at = u64(arguments[i].data);
      if (span.is_written && arguments[i].kind != 2 && span.begin <= at && at < span.end) {
        arguments[i].cells = span.cells.data() + (at - span.begin) / CELL_BYTES;
      }
    }
  }
  return spans;
}

// Told which bytes of arguments a launch wrote, and which it only read; null: nobody is.
static void (*watcher)(u64 begin, u64 end, u32 is_written);

extern "C" void watch(void (*tells)(u64 begin, u64 end, u32 is_written)) { watcher = tells; }

// What no cells follow counts as read as a whole: the launch writes none of it.
static void tell_watcher(const std::vector<Span> &spans) {
  for (const Span &span : spans) {
    if (span.cells.empty()) watcher(span.begin, span.end, 0);
    const auto kind = [&](u64 i) { return span.cells[i].writer ? 2u : span.cells[i].reader != 0; };
    for (u64 i = 0, next; i < span.cells.size(); i = next) {
      for (next = i + 1; next < span.cells.size() && kind(next) == kind(i);) next++;
      const u64 end = std::min(span.begin + next * CELL_BYTES, span.end);
      if (kind(i)) watcher(span.begin + i * CELL_BYTES, end, kind(i) == 2);
    }
  }
}

// Runs a kernel over a grid; the number of faults, whose texts fault_text returns. `order`: threads
// run upwards (0), downwards (1) or shuffled (2), workgroups likewise. Without `checks` the kernel
// must be an unchecked one. `most_shared`: the bytes of memory that a workgroup can have.
extern "C" u32 run_grid(Kernel kernel, Argument *arguments, u32 n_arguments, const u32 *n_groups,
                        u32 n_threads, u32 order, u32 seed, bool checks, u32 most_shared) {
  faults.clear();
  n_faults = 0;
  if (fibers.size() < n_threads) fibers.resize(n_threads);
  met.assign(n_threads * MOST_GIVEN, 0);
  std::vector<Span> spans;
  if (checks) spans = make_cells(arguments, n_arguments);
  launch.checks = checks;
  launch.most_shared = most_shared;
  forget_shared();
  launch.kernel = kernel;
  launch.arguments = arguments;
  thread.n_threads = n_threads;
  thread.has_frames = 0;  // a kernel that has them says so
  memcpy(thread.n_groups, n_groups, sizeof thread.n_groups);
  std::vector<u32> groups(n_groups[0] * n_groups[1] * n_groups[2]);
  for (u32 i = 0; i < groups.size(); i++) {
    groups[i] = order == 1 ? u32(groups.size()) - 1 - i : i;
  }
  if (order == 2 && groups.size() > 1) shuffle(groups, seed);
  for (const u32 i : groups) {
    thread.group[0] = i % n_groups[0];
    thread.group[1] = i / n_groups[0] % n_groups[1];
    thread.group[2] = i / n_groups[0] / n_groups[1];
    if (!run_group(order, seed)) break;
  }
  if (watcher) tell_watcher(spans);
  return u32(faults.size());
}

extern "C" const char *fault_text(u32 i) { return faults[i].c_str(); }

} // namespace emulator
