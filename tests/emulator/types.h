// What the runtime and the kernels that it runs share.
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

namespace emulator {

// The last threads that touched a piece of memory, counted from 1 over the whole grid, and the
// numbers of barriers that their workgroup had passed; and the thread whose copy to it is under
// way.
struct Cell {
  u32 writer, reader, written, read, copier;
};

// An element of shared memory besides. `met` and `met_read`: how often the warp of its writer, and
// of its readers, had met in order by then; `read_by`: the number of that warp, counted from 1, or
// MANY. `fences`: how many fences for the matrix units its writer
// had passed. `phase`: where it arrived by a bulk copy, the number of phases that its barrier
// `arrival` had ended then, counted from 1. `readers`: the place of notes on who read it.
// `products`: how many products that are under way read it.
struct SharedCell : Cell {
  u32 met, met_read, read_by, fences, arrival, phase, readers, products;
};
constexpr u32 MANY = 0xffffffffu;
constexpr u32 CELL_BYTES = 2;

// `there`: for each word whether it is part of anything; null: all are.
struct Argument {
  unsigned char *data;
  u64 n_bytes;
  u32 kind;
  Cell *cells;
  const unsigned char *there;
};

struct Shared {
  void *data;
  SharedCell *cells;
};

// What a copy reads: bytes from byte `at` of an argument on. There are no cells where nothing is
// written.
struct Source {
  const unsigned char *data;
  Cell *cells;
  const char *name;
  u64 at;
};

// The thread that runs now. `meets`: how often its warp has met in order. `has_frames`: its code
// keeps a pointer to the frame of each call, and each call of its text is one of the code.
struct Thread {
  u32 lane, number, epoch, group[3], n_groups[3], n_threads, fences, meets, has_frames;
};

extern "C" {
extern Thread thread;
void fault(const char *what, const char *array, u64 at, u32 other);
void barrier(const char *file, int line);
float in_subgroup(float x, int is_max, const char *file, int line);
void meet(const u32 *words, u32 n, const char *file, int line);
void meet_warpgroup(const u32 *words, u32 n, const char *file, int line);
void meet_in_order(const char *file, int line);
const u32 *given_by(u32 lane);
void multiply_halves(float *c, const u32 *a, const u32 *b, u32 is_bf16, const char *file, int line);
void multiply_bytes(int *c, const u32 *a, const u32 *b, u32 n_columns, const char *file, int line);
float add_dot(float sum, const u32 *a, const u32 *b, u32 is_bf16);
void count_banks(const u32 *elements);
float value_of(float x, u32 mask, const char *file, int line);
Shared shared_array(u64 n_elements, u64 element_bytes, const char *name);
void copy_later(void *to, Source from, SharedCell *cell, const char *name, u64 at);
void end_group_of_copies();
void wait_for_copies(u32 n_left);
void pass_fence();
u32 shown_fences_of(u32 number);
void begin_phases(void *at, u32 n_arrivals, const char *name, u64 i);
void show_phases();
void arrive(void *at, u32 n_bytes, const char *name, u64 i);
void wait_for_phase(void *at, u32 parity, const char *name, u64 i, const char *file, int line);
void copy_in_bulk(void *to, Source from, u32 n, SharedCell *cells, const char *name, u64 first,
                  void *at);
void read_arrived(SharedCell &cell, const char *name, u64 at);
}

// Memory outside of the workgroup: threads of one launch may not meet there.
inline void read_global(Cell &cell, const char *name, u64 at) {
  if (cell.writer && cell.writer != thread.number) fault("race: reads what another thread wrote",
                                                         name, at, cell.writer);
  cell.reader = !cell.reader || cell.reader == thread.number ? thread.number : MANY;
}

inline void write_global(Cell &cell, const char *name, u64 at) {
  if (cell.writer && cell.writer != thread.number) {
    fault("race: writes what another thread wrote", name, at, cell.writer);
  } else if (cell.reader && cell.reader != thread.number) {
    fault("race: writes what another thread reads", name, at, cell.reader);
  }
  cell.writer = thread.number;
}

// A copy reads at any time from its beginning to its end, so that no thread may write there in the
// launch: also not the one that copies, before or meanwhile.
inline void read_source(const Source &from, u64 n) {
  for (u64 i = 0; from.cells && i < n; i += CELL_BYTES) {
    Cell &cell = from.cells[i / CELL_BYTES];
    if (cell.writer == thread.number) {
      fault("race: copies what the same thread wrote", from.name, from.at + i, cell.writer);
    }
    read_global(cell, from.name, from.at + i);
  }
}

inline void tell_written(const Source &from, u64 n) {
  for (u64 i = 0; from.cells && i < n; i += CELL_BYTES) {
    const u32 writer = from.cells[i / CELL_BYTES].writer;
    if (writer) fault("race: writes what a copy reads", from.name, from.at + i, writer);
  }
}

// Shared memory: threads may meet if there is a barrier between, and those of a warp if it met in
// order between.
inline bool is_of_warp(u32 number) {
  return (number - 1) % thread.n_threads / 32u == thread.lane / 32u;
}

inline bool was_before(const SharedCell &cell) {
  return cell.written != thread.epoch || (is_of_warp(cell.writer) && cell.met < thread.meets);
}

inline bool was_read_before(const SharedCell &cell) {
  const bool by_own = cell.read_by == thread.lane / 32u + 1u;
  return cell.read != thread.epoch || (by_own && cell.met_read < thread.meets);
}

inline void read_shared(SharedCell &cell, const char *name, u64 at) {
  if (cell.arrival) return read_arrived(cell, name, at);
  if (!cell.writer) fault("reads what no thread wrote", name, at, 0);
  if (cell.writer && cell.writer != thread.number && !was_before(cell)) {
    fault("race: reads what another thread wrote", name, at, cell.writer);
  }
  if (cell.copier) fault("reads before a copy is waited for", name, at, cell.copier);
  const bool again = cell.reader && cell.read == thread.epoch;
  const u32 warp = thread.lane / 32u + 1u;
  cell.reader = again && cell.reader != thread.number ? MANY : thread.number;
  cell.read_by = again && cell.read_by != warp ? MANY : warp;
  cell.read = thread.epoch;
  cell.met_read = thread.meets;
}

inline void write_shared(SharedCell &cell, const char *name, u64 at) {
  if (cell.copier) fault("writes before a copy is waited for", name, at, cell.copier);
  if (cell.writer && cell.writer != thread.number && !was_before(cell)) {
    fault("race: writes what another thread wrote", name, at, cell.writer);
  } else if (cell.reader && cell.reader != thread.number && !was_read_before(cell)) {
    fault("race: writes what another thread reads", name, at, cell.reader);
  }
  if (cell.products) fault("writes what products under way read:", name, at, 0);
  cell.writer = thread.number;
  cell.written = thread.epoch;
  cell.met = thread.meets;
  cell.fences = thread.fences;
  cell.arrival = 0;
}

// A read by matrix units that read shared memory themselves: they see what threads stored, or
// copied, once these have passed a fence, and then a barrier.
inline void read_by_units(SharedCell &cell, const char *name, u64 at) {
  read_shared(cell, name, at);
  if (!cell.arrival && cell.writer && shown_fences_of(cell.writer) <= cell.fences) {
    fault("multiplies what no fence showed the matrix units:", name, at, cell.writer);
  }
}

inline u32 largest_in_subgroup(u32 x, const char *file, int line) {
  meet(&x, 1, file, line);
  u32 largest = 0;
  for (u32 i = 0; i < 32u; i++) {
    if (given_by(i)[0] > largest) largest = given_by(i)[0];
  }
  return largest;
}

} // namespace emulator
