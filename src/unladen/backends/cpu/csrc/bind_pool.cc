// Counters and settings of the thread pool and of prefetching, for tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/names.h"
#include "backends/cpu/csrc/pool.h"

namespace nb = nanobind;

namespace unladen::cpu {

void bind_pool(nb::module_ &m) {
    m.def("current_cpu", &current_cpu);
    m.def("n_tiles_taken_back", [] { return Pool::instance().n_taken_back(); });
    m.def("n_times_relieved", [] { return Pool::instance().n_relieved(); });
    m.def("keep_tiles_apart", [] { Pool::instance().crowding().keep_apart(); });
    m.def("read_like", [](const std::string &name) {
        const auto next = named<Reading>(name);
        return Names<Reading>::all[static_cast<int>(std::exchange(reading, next))];
    });
}

}  // namespace unladen::cpu
