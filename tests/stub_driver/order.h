// Which work comes before which. Each stream counts its work. A clock says, for each stream, up to
// which count its work comes before something: before the next work of a stream, or before what the
// host does next. Memory remembers its last write and the reads since then, so that two uses that
// nothing orders are told whichever of them the stub does first.
//
// The threads of the host share one clock: what one of them waits for comes before what any of them
// does afterwards.
using Clock = std::shared_ptr<const std::map<u32, u64>>;

// Work that used memory, a kernel's code, or the like.
struct Use {
  u32 stream;
  u64 count;
  int device;
  const char *what;
};

// The uses of a range of addresses. `writes` has one at most.
struct Uses {
  u64 end;
  std::vector<Use> writes, reads;
};

static Clock host;
static std::map<u64, Uses> uses_of_memory;

static void fault(const char *format, ...);
static bool is_lost(int device);
static std::string place_of(u64 begin, u64 end);

static bool knows(const Clock &clock, const Use &use) {
  if (!clock) return false;
  const auto found = clock->find(use.stream);
  return found != clock->end() && found->second >= use.count;
}

static Clock joined(const Clock &one, const Clock &other) {
  if (!other || one == other) return one;
  if (!one) return other;
  std::shared_ptr<std::map<u32, u64>> made;
  for (const auto &[stream, count] : *other) {
    if (knows(one, {stream, count, 0, nullptr})) continue;
    if (!made) made = std::make_shared<std::map<u32, u64>>(*one);
    (*made)[stream] = count;
  }
  return made ? Clock(made) : one;
}

// The clock of all that comes before the end of a stream's first `count` pieces of work, the last of
// which has this clock.
static Clock end_of(u32 stream, u64 count, const Clock &clock) {
  return joined(clock, std::make_shared<std::map<u32, u64>>(std::map<u32, u64>{{stream, count}}));
}

static std::string text_of(const Use &use) {
  return std::string(use.what) + " (number " + std::to_string(use.count) + " of stream " +
         std::to_string(use.stream) + ", card " + std::to_string(use.device) + ")";
}

// Makes an address a boundary between ranges.
static void split(u64 at) {
  auto found = uses_of_memory.lower_bound(at);
  if (found == uses_of_memory.begin()) return;
  --found;
  if (found->second.end <= at) return;
  uses_of_memory[at] = found->second;
  found->second.end = at;
}

// Whether `use`, which comes after all that its clock knows, comes after all `others`.
static bool is_after(const std::vector<Use> &others, const Use &use, const Clock &clock,
                     const char *does, const char *other_does, u64 begin, u64 end) {
  for (const Use &other : others) {
    if (other.stream == use.stream || knows(clock, other) || is_lost(other.device)) continue;
    fault("%s %s %s, %s %s them, and nothing orders the two", text_of(use).c_str(), does,
          place_of(begin, end).c_str(), text_of(other).c_str(), other_does);
    return false;
  }
  return true;
}

static void add_read(Uses &uses, const Use &use) {
  for (Use &other : uses.reads) {
    if (other.stream == use.stream) {
      other = use;
      return;
    }
  }
  uses.reads.push_back(use);
}

static void note_read(u64 begin, u64 end, const Use &use) {
  auto i = uses_of_memory.lower_bound(begin);
  for (u64 at = begin; at < end; ++i) {
    if (i == uses_of_memory.end() || i->first > at) {
      const u64 next = i == uses_of_memory.end() ? end : std::min(i->first, end);
      i = uses_of_memory.emplace(at, Uses{next, {}, {}}).first;
    }
    add_read(i->second, use);
    at = i->second.end;
  }
}

// Work uses memory. Tells the first use that it isn't ordered with.
static void touch(u64 begin, u64 end, bool is_write, const Use &use, const Clock &clock) {
  if (begin >= end) return;
  split(begin);
  split(end);
  const auto first = uses_of_memory.lower_bound(begin), last = uses_of_memory.lower_bound(end);
  const char *does = is_write ? "writes" : "reads";
  for (auto i = first; i != last; ++i) {
    const u64 from = i->first, to = i->second.end;
    if (!is_after(i->second.writes, use, clock, does, "writes", from, to)) break;
    if (is_write && !is_after(i->second.reads, use, clock, does, "reads", from, to)) break;
  }
  if (!is_write) return note_read(begin, end, use);
  uses_of_memory.erase(first, last);
  uses_of_memory[begin] = {end, {use}, {}};
}

// The host frees something that work used: it must have waited for that.
static bool host_knows(const std::vector<Use> &uses, const char *what) {
  for (const Use &use : uses) {
    if (knows(host, use) || is_lost(use.device)) continue;
    fault("%s of what %s uses, and the host hasn't waited for that", what, text_of(use).c_str());
    return false;
  }
  return true;
}

// Memory is there no longer.
static void forget(u64 begin, u64 end) {
  split(begin);
  split(end);
  uses_of_memory.erase(uses_of_memory.lower_bound(begin), uses_of_memory.lower_bound(end));
}

static void free_range(u64 begin, u64 end, const char *what) {
  split(begin);
  split(end);
  const auto first = uses_of_memory.lower_bound(begin), last = uses_of_memory.lower_bound(end);
  for (auto i = first; i != last; ++i) {
    if (!host_knows(i->second.writes, what) || !host_knows(i->second.reads, what)) break;
  }
  forget(begin, end);
}
