#include "csrc/gil.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace nb = nanobind;

namespace unladen {
namespace {

// The exit handler waits at most this long for native work. A call that doesn't check
// is_interrupted() may take longer; it then runs on while the process ends.
constexpr std::chrono::seconds longest_wait{10};

struct Threads {
    std::mutex mutex;
    std::condition_variable changed;
    int n_inside = 0;     // threads that compute without Python's lock
    int n_returning = 0;  // threads that wait for Python's lock
    std::atomic<bool> is_closing{false};
    std::thread::id closer;  // the thread that runs the exit handler; valid once is_closing
    unsigned long main_thread = 0;  // Python's main thread, the only one that runs signal handlers

    bool closes(std::thread::id thread) const { return is_closing && closer != thread; }
};

// The object is never destroyed: threads sleep in it until the process is gone.
Threads &threads() {
    static Threads *all = new Threads;
    return *all;
}

thread_local int n_unlocked = 0;  // live Unlocked objects of this thread

// Only the thread that forked exists in the child.
[[maybe_unused]] void after_fork() {
    Threads *all = new (&threads()) Threads;
    all->n_inside = n_unlocked;
    all->main_thread = PyThread_get_thread_ident();
}

void wait_for_threads() {
    Threads &all = threads();
    PyThreadState *state = PyEval_SaveThread();
    {
        std::unique_lock lock(all.mutex);
        all.closer = std::this_thread::get_id();
        all.is_closing = true;
        all.changed.wait_for(lock, longest_wait,
                             [&] { return all.n_inside == 0 && all.n_returning == 0; });
    }
    PyEval_RestoreThread(state);
}

}  // namespace

Unlocked::Unlocked() {
    Threads &all = threads();
    {
        const std::lock_guard lock(all.mutex);
        all.n_inside++;
    }
    n_unlocked++;
    state_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
    Threads &all = threads();
    {
        std::unique_lock lock(all.mutex);
        n_unlocked--;
        all.n_inside--;
        if (all.closes(std::this_thread::get_id())) {
            all.changed.notify_all();
            all.changed.wait(lock, [] { return false; });
        }
        all.n_returning++;
    }
    PyEval_RestoreThread(state_);
    const std::lock_guard lock(all.mutex);
    all.n_returning--;
    all.changed.notify_all();
}

bool is_interrupted() {
    if (PyThread_get_thread_ident() != threads().main_thread)
        return threads().closes(std::this_thread::get_id());
    nb::gil_scoped_acquire held;
    return PyErr_CheckSignals() != 0;
}

void bind_gil(nb::module_ &) {
    nb::set_leak_warnings(false);  // objects that a daemon thread holds at the end are never freed
    const nb::object thread = nb::module_::import_("threading").attr("main_thread")();
    threads().main_thread = nb::cast<unsigned long>(thread.attr("ident"));
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork(nullptr, nullptr, after_fork);
#endif
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&wait_for_threads));
}

}  // namespace unladen
