// The calls that a thread is in, for the runtime: threads of a warp meet in one instruction, and a
// function that is called at two places may be there twice.

// A number for the places of the calls from a kernel's entry to here; 0 where code doesn't keep
// frames.
static u64 number_of_calls(const std::vector<char> &stack) {
  u64 number = 0;
  if (!thread.has_frames) return number;
#if defined(__x86_64__) || defined(__aarch64__)
  const auto first = reinterpret_cast<uintptr_t>(stack.data());
  const auto last = first + stack.size() - 2 * sizeof(void *);
  auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  while (frame >= first && frame <= last && frame % sizeof(void *) == 0) {
    void *const *words = reinterpret_cast<void *const *>(frame);
    number = number * 0x100000001b3 + reinterpret_cast<uintptr_t>(words[1]);
    const auto next = reinterpret_cast<uintptr_t>(words[0]);
    if (next <= frame) break;
    frame = next;
  }
#endif
  return number;
}
