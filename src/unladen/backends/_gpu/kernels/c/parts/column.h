// The column of this thread, in kernels with a thread for each column of a sequence.
#define COLUMN (GROUP_X * WG + LANE)
