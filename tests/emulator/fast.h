// The emulator without its checks, for whole models.
#define UNCHECKED
#include "emulator.h"
