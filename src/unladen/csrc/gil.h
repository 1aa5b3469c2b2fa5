// Python's lock around native work. While the interpreter ends, a thread that takes the lock is
// unwound by force (up to Python 3.13), through destructors that must not throw: the process
// aborts. Objects that a thread computes with are destroyed meanwhile, too. So before the
// interpreter ends, an exit handler waits until no thread computes here, and the threads that come
// back from native work sleep until the process is gone.
#pragma once

#include <Python.h>

namespace unladen {

// Releases Python's lock while the object exists. Construct it with the lock held.
class Unlocked {
public:
    Unlocked();
    ~Unlocked();
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;

private:
    PyThreadState *state_;
};

// Whether native work should end early: a signal handler has raised (Python's error is set), or the
// process is ending. Call it on the thread that released the lock.
bool is_interrupted();

}  // namespace unladen
