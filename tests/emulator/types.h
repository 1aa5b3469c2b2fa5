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
constexpr u32 MANY = 0xffffffffu;
constexpr u32 CELL_BYTES = 2;

struct Argument {
  unsigned char *data;
  u64 n_bytes;
  u32 kind;
  Cell *cells;
};

struct Shared {
  void *data;
  Cell *cells;
};

// The thread that runs now.
struct Thread {
  u32 lane, number, epoch, group[3], n_groups[3], n_threads;
};

extern "C" {
extern Thread thread;
void fault(const char *what, const char *array, u64 at, u32 other);
void barrier(const char *file, int line);
float in_subgroup(float x, int is_max, const char *file, int line);
void meet(const u32 *words, u32 n, const char *file, int line);
const u32 *given_by(u32 lane);
void multiply_halves(float *c, const u32 *a, const u32 *b, u32 is_bf16, const char *file, int line);
void multiply_bytes(int *c, const u32 *a, const u32 *b, u32 n_columns, const char *file, int line);
float add_dot(float sum, const u32 *a, const u32 *b, u32 is_bf16);
void count_banks(const u32 *elements);
float value_of(float x, u32 mask, const char *file, int line);
Shared shared_array(u64 n_elements, u64 element_bytes);
void copy_later(void *to, const void *from, Cell *cell, const char *name, u64 at);
void end_group_of_copies();
void wait_for_copies(u32 n_left);
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

// Shared memory: threads may meet if there is a barrier between.
inline void read_shared(Cell &cell, const char *name, u64 at) {
  if (!cell.writer) fault("reads what no thread wrote", name, at, 0);
  if (cell.writer && cell.writer != thread.number && cell.written == thread.epoch) {
    fault("race: reads what another thread wrote", name, at, cell.writer);
  }
  if (cell.copier) fault("reads before a copy is waited for", name, at, cell.copier);
  const bool again = cell.reader && cell.read == thread.epoch;
  cell.reader = again && cell.reader != thread.number ? MANY : thread.number;
  cell.read = thread.epoch;
}

inline void write_shared(Cell &cell, const char *name, u64 at) {
  if (cell.copier) fault("writes before a copy is waited for", name, at, cell.copier);
  if (cell.writer && cell.writer != thread.number && cell.written == thread.epoch) {
    fault("race: writes what another thread wrote", name, at, cell.writer);
  } else if (cell.reader && cell.reader != thread.number && cell.read == thread.epoch) {
    fault("race: writes what another thread reads", name, at, cell.reader);
  }
  cell.writer = thread.number;
  cell.written = thread.epoch;
}

} // namespace emulator
