#include "backends/cpu/csrc/write_at.h"

#include <algorithm>
#include <cerrno>

#ifdef _WIN32
#include <io.h>
#include <windows.h>
#else
#include <unistd.h>
#endif

namespace unladen::cpu {
namespace {

// The most bytes of one call; no system takes more than 2 GiB.
constexpr size_t most_at_once = size_t(1) << 30;

#ifdef _WIN32

int errno_of(DWORD error) {
    switch (error) {
        case ERROR_DISK_FULL:
        case ERROR_HANDLE_DISK_FULL: return ENOSPC;
        case ERROR_ACCESS_DENIED:
        case ERROR_WRITE_PROTECT: return EACCES;
        case ERROR_INVALID_HANDLE: return EBADF;
        default: return EIO;
    }
}

// Returns how many bytes were written, or minus an errno.
int64_t write_some(int file, const uint8_t *bytes, size_t n_bytes, int64_t offset) {
    OVERLAPPED place{};  // the file isn't opened for overlapped calls, so this call waits
    place.Offset = DWORD(offset);
    place.OffsetHigh = DWORD(offset >> 32);
    DWORD n_written = 0;
    const HANDLE handle = reinterpret_cast<HANDLE>(_get_osfhandle(file));
    if (!WriteFile(handle, bytes, DWORD(n_bytes), &n_written, &place))
        return -errno_of(GetLastError());
    return n_written;
}

#else

int64_t write_some(int file, const uint8_t *bytes, size_t n_bytes, int64_t offset) {
    const ssize_t n_written = pwrite(file, bytes, n_bytes, offset);
    return n_written < 0 ? -errno : n_written;
}

#endif

}  // namespace

int write_at(int file, const uint8_t *bytes, size_t n_bytes, int64_t offset) {
    while (n_bytes > 0) {
        const int64_t n = write_some(file, bytes, std::min(n_bytes, most_at_once), offset);
        if (n == -EINTR) continue;
        if (n <= 0) return n < 0 ? int(-n) : EIO;
        bytes += n;
        offset += n;
        n_bytes -= size_t(n);
    }
    return 0;
}

}  // namespace unladen::cpu
