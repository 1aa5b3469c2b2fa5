// A library that adds over cards, as NCCL and RCCL do. A sum is done as late as the driver's other
// work, and only once the streams of all cards have come to it.
struct Communicator {
  int device, rank;
  std::vector<Communicator *> *group;
  bool *is_aborted;
};

struct Member {
  Communicator *communicator;
  u64 from, to, count;
  int type, op;
  Stream *stream;
  u64 position = 0;
};

struct Sum {
  std::vector<Member> members;
  bool is_done = false;
  bool *is_aborted;
};

static thread_local int n_groups = 0, group_error = 0;
static thread_local std::vector<Member> members;
constexpr int NCCL_INVALID_USAGE = 5, NCCL_FLOAT32 = 7, NCCL_SUM = 0;

int ncclGetVersion(int *version) {
  *version = int(setting("nccl version", 22703));
  return OK;
}
const char *ncclGetErrorString(int error) {
  return error == 1 ? "unhandled cuda error" : error == NCCL_INVALID_USAGE ? "invalid usage"
                                                                         : "an error of the stub";
}
int ncclCommInitAll(void **made, int n, const int *devices) {
  CALLED(false);
  auto *group = new std::vector<Communicator *>;
  bool *is_aborted = new bool(false);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      if (devices[i] == devices[j]) {
        fault("ncclCommInitAll with one card twice");
        return NCCL_INVALID_USAGE;
      }
    }
    group->push_back(new Communicator{devices[i], i, group, is_aborted});
    made[i] = group->back();
  }
  return OK;
}
int ncclCommDestroy(void *communicator) {
  CALLED(false);
  if (*static_cast<Communicator *>(communicator)->is_aborted) {
    fault("ncclCommDestroy of what was aborted");
  }
  return OK;
}
int ncclCommAbort(void *communicator) {
  CALLED(false);
  *static_cast<Communicator *>(communicator)->is_aborted = true;
  return OK;
}
int ncclCommGetAsyncError(void *, int *error) {
  CALLED(false);
  *error = int(setting("nccl error", OK));
  return OK;
}
int ncclGroupStart() {
  CALLED(false);
  n_groups++;
  return OK;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *which,
                  void *stream) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  if (const int error = called(__func__, false)) return group_error = error;
  auto *communicator = static_cast<Communicator *>(which);
  Member member{communicator, reinterpret_cast<u64>(from), reinterpret_cast<u64>(to), count, type,
                op, static_cast<Stream *>(stream)};
  const char *what = "ncclAllReduce";
  if (!n_groups) fault("%s outside of a group waits for ever", what);
  if (*communicator->is_aborted) fault("%s after an abort", what);
  if (type != NCCL_FLOAT32 || op != NCCL_SUM) fault("%s isn't a sum of float32", what);
  if (member.stream->device != communicator->device) fault("%s on another card's stream", what);
  if (member.stream->recording) fault("%s is recorded", what);
  for (u64 at : {member.from, member.to}) {
    u64 end;
    const Block *block = block_of(at, &end);
    if (!lives({at, at + 4 * count}, what, false, -1)) return NCCL_INVALID_USAGE;
    if (block->device != communicator->device) fault("%s with another card's memory", what);
  }
  if (member.from != member.to && member.from < member.to + 4 * count &&
      member.to < member.from + 4 * count) {
    fault("%s overlaps", what);
  }
  members.push_back(member);
  return OK;
}

// The numbers of the cards in a ring, each piece from another card on.
static void add_up(const Sum &sum) {
  const size_t n = sum.members.size(), count = sum.members[0].count;
  for (const Member &member : sum.members) {
    for (u64 at : {member.from, member.to}) {
      if (!lives({at, at + 4 * count}, "a sum over cards", false, member.communicator->device)) {
        return;
      }
    }
  }
  std::vector<float> total(count);
  for (size_t i = 0; i < count; i++) {
    const size_t first = i * n / count;
    for (size_t k = 0; k < n; k++) {
      const float x = reinterpret_cast<const float *>(sum.members[(first + k) % n].from)[i];
      total[i] = k ? total[i] + x : x;
    }
  }
  for (const Member &member : sum.members) {
    memcpy(reinterpret_cast<void *>(member.to), total.data(), 4 * count);
  }
  counts["sums"]++;
}

static bool all_are_there(Sum *sum) {
  if (*sum->is_aborted || sum->is_done) return true;
  if (setting("nccl error", OK)) return false;
  for (const Member &member : sum->members) {
    if (!drain(member.stream, member.position)) return false;
    if (lost.count(member.communicator->device)) return false;  // its card never adds
  }
  return true;
}

int ncclGroupEnd() {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  if (const int error = called(__func__, false)) group_error = error;
  if (--n_groups) return OK;
  std::vector<Member> all;
  all.swap(members);
  const int error = group_error;
  group_error = OK;
  if (error || all.empty()) return error;
  auto *group = all[0].communicator->group;
  std::vector<bool> seen(group->size());
  for (const Member &member : all) {
    if (member.communicator->group != group || seen[size_t(member.communicator->rank)]) {
      fault("a group with a card that takes part twice");
    }
    seen[size_t(member.communicator->rank)] = true;
    if (member.count != all[0].count) fault("a group with unequal counts");
  }
  if (all.size() != group->size()) {
    fault("a group without all cards waits for ever");
    return NCCL_INVALID_USAGE;
  }
  auto *sum = new Sum{all, false, all[0].communicator->is_aborted};
  for (Member &member : sum->members) member.position = member.stream->n_queued;
  for (const Member &member : sum->members) {
    queue(member.stream, {[sum] {
      if (!sum->is_done && !*sum->is_aborted) add_up(*sum);
      sum->is_done = true;
    }, {{member.from, member.from + 4 * member.count},
        {member.to, member.to + 4 * member.count, true}},
    "a sum over cards", [sum] { return all_are_there(sum); }});
  }
  return OK;
}
