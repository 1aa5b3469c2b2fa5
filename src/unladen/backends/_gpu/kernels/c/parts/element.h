// The element of this thread, in kernels with a thread for each element.
#define ELEMENT ((GROUP_X + GROUP_Y * N_GROUPS_X) * WG + LANE)
