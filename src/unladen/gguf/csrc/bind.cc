// Binds the scan over a header's strings and the work on a file's pages; typed in _native/gguf.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "csrc/gil.h"
#include "gguf/csrc/pages.h"
#include "gguf/csrc/scan.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen {
namespace {

using Buffer = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ranges = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

nb::object string_starts(Buffer buffer, uint64_t pos, uint64_t n, bool big) {
    if (pos > buffer.shape(0)) throw nb::value_error("begins behind the buffer");
    auto *starts = new std::vector<int64_t>(
        scan(buffer.data(), buffer.shape(0), pos, n, big));
    nb::capsule owner(starts, [](void *p) noexcept {
        delete static_cast<std::vector<int64_t> *>(p);
    });
    size_t shape[] = {starts->size()};
    return nb::cast(nb::ndarray<nb::numpy, int64_t>(starts->data(), 1, shape, owner));
}

// PagesAhead for Python: keeps the mapping alive while its thread works on it.
class Ahead {
public:
    explicit Ahead(Buffer data)
        : data_(data), pages_({Bytes(data.data(), data.shape(0))}) {}
    Ahead(Buffer data, Ranges ranges) : data_(data), pages_(parts(data, ranges)) {}
    ~Ahead() { stop(); }
    void stop() {
        const Unlocked unlocked;
        pages_.stop();
    }
    void finish() {
        const Unlocked unlocked;
        pages_.finish();
    }

private:
    static std::vector<Bytes> parts(const Buffer &data, const Ranges &ranges) {
        std::vector<Bytes> found;
        for (size_t i = 0; i < ranges.shape(0); i++) {
            const uint64_t first = ranges(i, 0), last = ranges(i, 1);
            if (first > last || last > data.shape(0)) throw nb::value_error("is no range of it");
            found.emplace_back(data.data() + first, last - first);
        }
        return found;
    }
    Buffer data_;
    PagesAhead pages_;
};

void drop(Buffer data, unsigned n_threads) {
    const Unlocked unlocked;
    drop_pages({data.data(), data.shape(0)}, n_threads);
}

}  // namespace

void bind_gguf(nb::module_ &m) {
    m.def("string_starts", &string_starts, "buffer"_a, "pos"_a, "n"_a, "big_endian"_a);
    nb::class_<Ahead>(m, "PagesAhead")
        .def(nb::init<Buffer>(), "data"_a)
        .def(nb::init<Buffer, Ranges>(), "data"_a, "ranges"_a)
        .def("stop", &Ahead::stop)
        .def("finish", &Ahead::finish);
    m.def("drop_pages", &drop, "data"_a, "n_threads"_a);
    m.def("trim_heap", &trim_heap, nb::call_guard<Unlocked>());
}

}  // namespace unladen
