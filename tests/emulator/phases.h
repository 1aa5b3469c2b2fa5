// Barriers in shared memory that count arrivals and bytes (mbarrier of the PTX ISA), and the bulk
// copies that arrive there, for the runtime. A copy arrives when a thread waits for the phase that
// it ends, no sooner. Threads learn of each other's reads by phases, warps that meet in order, and
// barriers of the workgroup; `knows` has the last arrival of each thread that a thread knows of.

struct BulkCopy {
  void *to;
  Source from;
  u32 n;
  SharedCell *cells;
};

struct Phases {
  const void *at;
  const char *name;
  u64 place;
  u32 n_arrivals, left, ended, epoch, owner;
  long long expected;
  bool is_shown;
  std::vector<BulkCopy> copies;
  std::vector<u32> known, of_last;
};

// When a thread read an element: the workgroup's barriers so far, and its own next arrival.
struct Read {
  u32 epoch, clock;
};

static std::vector<Phases> phases;
static std::vector<std::vector<Read>> reads;

static void forget_phases() {
  phases.clear();
  reads.clear();
}

static void learn(std::vector<u32> &knows, const std::vector<u32> &more) {
  knows.resize(thread.n_threads);
  for (size_t i = 0; i < more.size(); i++) knows[i] = std::max(knows[i], more[i]);
}

static u32 &clock_of(Fiber &fiber, u32 lane) {
  fiber.knows.resize(thread.n_threads);
  if (!fiber.knows[lane]) fiber.knows[lane] = 1;
  return fiber.knows[lane];
}

// The number of the barrier at this address; reports one that nobody began, or that other threads
// may not see yet.
static u32 number_at(const void *at, const char *name, u64 place) {
  for (u32 i = 0; i < phases.size(); i++) {
    const Phases &found = phases[i];
    if (found.at != at) continue;
    if (found.owner != thread.number && found.epoch == thread.epoch) {
      fault("race: uses what another thread just began,", name, place, found.owner);
    }
    return i;
  }
  fault("uses what nobody began,", name, place, 0);
  phases.push_back({at, name, place, 1, 1, 0, thread.epoch, thread.number, 0, true, {}, {}, {}});
  return u32(phases.size() - 1);
}

extern "C" void begin_phases(void *at, u32 n_arrivals, const char *name, u64 place) {
  for (const Phases &other : phases) {
    if (other.at == at) fault("begins again", name, place, other.owner);
  }
  phases.push_back({at, name, place, n_arrivals, n_arrivals, 0, thread.epoch, thread.number, 0,
                    false, {}, {}, {}});
}

extern "C" void show_phases() {
  for (Phases &one : phases) one.is_shown = one.is_shown || one.owner == thread.number;
}

static long long bytes_on_the_way(const Phases &one) {
  long long n = 0;
  for (const BulkCopy &copy : one.copies) n += copy.n;
  return n;
}

// Ends the phase if all arrived; `may_copy`: copies arrive now.
static void end_phase(u32 number, bool may_copy) {
  Phases &one = phases[number];
  if (one.left || bytes_on_the_way(one) != one.expected || (!may_copy && !one.copies.empty())) {
    return;
  }
  one.ended++;
  for (const BulkCopy &copy : one.copies) {
    tell_written(copy.from, copy.n);
    memcpy(copy.to, copy.from.data, copy.n);
    for (u32 i = 0; copy.cells && i < copy.n / 16; i++) {
      copy.cells[i].copier = 0;
      copy.cells[i].phase = one.ended;
      copy.cells[i].written = thread.epoch;
    }
  }
  one.copies.clear();
  one.left = one.n_arrivals;
  one.expected = 0;
  one.of_last = one.known;
}

extern "C" void arrive(void *at, u32 n_bytes, const char *name, u64 place) {
  const u32 number = number_at(at, name, place);
  Phases &one = phases[number];
  if (!one.left) {
    fault("more arrivals than were announced at", name, place, 0);
    return;
  }
  one.expected += n_bytes;
  one.left--;
  clock_of(*current, thread.lane);
  learn(one.known, current->knows);
  clock_of(*current, thread.lane)++;
  end_phase(number, false);
}

static bool has_ended(u32 number, u32 parity) { return (phases[number].ended & 1) != parity; }

extern "C" void wait_for_phase(void *at, u32 parity, const char *name, u64 place, const char *file,
                               int line) {
  const u32 number = number_at(at, name, place);
  current->waits_for = number;
  current->parity = parity;
  while (!has_ended(number, parity)) yield(State::at_phase, file, line);
  learn(current->knows, phases[number].of_last);
  if (current->seen.size() <= number) current->seen.resize(number + 1);
  current->seen[number] = phases[number].ended;
}

// Lets threads go on that wait for phases which can end; whether there are any.
static bool end_phases() {
  bool any = false;
  for (u32 i = 0; i < thread.n_threads; i++) {
    Fiber &fiber = fibers[i];
    if (fiber.state != State::at_phase) continue;
    if (!has_ended(fiber.waits_for, fiber.parity)) end_phase(fiber.waits_for, true);
    if (!has_ended(fiber.waits_for, fiber.parity)) continue;
    fiber.state = State::ready;
    any = true;
  }
  return any;
}

// Tells what a thread waits for that never comes; whether there is one.
static bool tell_endless_phase() {
  for (u32 i = 0; i < thread.n_threads; i++) {
    const Fiber &fiber = fibers[i];
    if (fiber.state != State::at_phase) continue;
    const Phases &one = phases[fiber.waits_for];
    tell("workgroup (%u,%u,%u), deadlock after %u barriers: thread %u waits for phase %u of "
         "%s[%llu] (%s:%d), where %u arrivals are missing and copies bring %lld of %lld bytes",
         thread.group[0], thread.group[1], thread.group[2], thread.epoch, i, one.ended, one.name,
         (unsigned long long)one.place, fiber.file, fiber.line, one.left, bytes_on_the_way(one),
         one.expected);
    return true;
  }
  return false;
}

static void tell_copies_under_way() {
  for (const Phases &one : phases) {
    if (!one.copies.empty()) {
      tell("workgroup (%u,%u,%u) ends and nobody waited for copies to %s[%llu]", thread.group[0],
           thread.group[1], thread.group[2], one.name, (unsigned long long)one.place);
    }
  }
}

// Whether another thread's read may come after this thread's next store; `who`: that thread.
static bool may_be_read_later(const SharedCell &cell, u32 *who) {
  if (!cell.readers) return false;
  const std::vector<Read> &each = reads[cell.readers - 1];
  current->knows.resize(thread.n_threads);
  for (u32 i = 0; i < thread.n_threads; i++) {
    if (i != thread.lane && each[i].clock > current->knows[i] && each[i].epoch == thread.epoch) {
      *who = thread.number - thread.lane + i;
      return true;
    }
  }
  return false;
}

// A copy may write at any time until its phase ends.
static void write_in_bulk(SharedCell &cell, const char *name, u64 at, u32 number) {
  u32 who = 0;
  if (cell.copier) fault("writes before a copy is waited for", name, at, cell.copier);
  if (may_be_read_later(cell, &who)) {
    fault("race: copies to what another thread reads", name, at, who);
  }
  if (!cell.arrival && cell.writer && cell.writer != thread.number
      && cell.written == thread.epoch) {
    fault("race: copies to what another thread wrote", name, at, cell.writer);
  }
  if (!cell.arrival && cell.reader && cell.reader != thread.number && cell.read == thread.epoch) {
    fault("race: copies to what another thread reads", name, at, cell.reader);
  }
  if (cell.products) fault("copies to what products under way read:", name, at, 0);
  cell.writer = cell.copier = thread.number;
  cell.written = thread.epoch;
  cell.arrival = number + 1;
  if (!cell.readers) {
    reads.emplace_back(thread.n_threads);
    cell.readers = u32(reads.size());
  }
}

extern "C" void copy_in_bulk(void *to, Source from, u32 n, SharedCell *cells, const char *name,
                             u64 first, void *at) {
  const u32 number = number_at(at, name, first);
  if (!phases[number].is_shown) fault("copies to a barrier that no fence showed:", name, first, 0);
  for (u32 i = 0; cells && i < n / 16; i++) write_in_bulk(cells[i], name, first + i, number);
  read_source(from, n);
  phases[number].copies.push_back({to, from, n, cells});
}

// A read of what arrived, or will arrive, by a bulk copy.
extern "C" void read_arrived(SharedCell &cell, const char *name, u64 at) {
  if (cell.copier) fault("reads before a copy is waited for", name, at, cell.copier);
  const std::vector<u32> &seen = current->seen;
  const bool has_waited = cell.arrival <= seen.size() && seen[cell.arrival - 1] >= cell.phase;
  if (!has_waited && cell.written == thread.epoch) {
    fault("race: reads what it hasn't waited for,", name, at, cell.writer);
  }
  reads[cell.readers - 1][thread.lane] = {thread.epoch, clock_of(*current, thread.lane)};
}

// The threads of a warp that met in order know what each of them knows.
static void tell_each_other(u32 first, u32 end) {
  std::vector<u32> all;
  for (u32 i = first; i < end; i++) {
    clock_of(fibers[i], i);
    learn(all, fibers[i].knows);
  }
  for (u32 i = first; i < end; i++) {
    fibers[i].knows = all;
    fibers[i].knows[i]++;
  }
}
