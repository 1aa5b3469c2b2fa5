# A toolchain file: zig's clang (tools/wheels/zig-c++) for the machine that the environment's
# UNLADEN_ZIG_TARGET names: aarch64-linux-gnu.2.28, aarch64-macos, x86_64-windows-gnu, ...

string(REGEX MATCH "^([a-z0-9_]+)-([a-z]+)" found "$ENV{UNLADEN_ZIG_TARGET}")
if(NOT found)
  message(FATAL_ERROR "error: UNLADEN_ZIG_TARGET names no machine\nhint: such as aarch64-macos")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
if(CMAKE_MATCH_2 STREQUAL "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_OSX_SYSROOT "")  # zig brings its own
  set(CMAKE_INSTALL_NAME_TOOL /bin/true)
elseif(CMAKE_MATCH_2 STREQUAL "windows")
  set(CMAKE_SYSTEM_NAME Windows)
else()
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_EXECUTABLE_FORMAT ELF)
endif()

# CMake would find out what this compiler is by linking a program, for which zig first compiles the
# target's C++ library: more than a minute.
set(CMAKE_CXX_COMPILER "${CMAKE_CURRENT_LIST_DIR}/../tools/wheels/zig-c++")
set(CMAKE_AR "${CMAKE_CURRENT_LIST_DIR}/../tools/wheels/zig-ar" CACHE FILEPATH "")
set(CMAKE_RANLIB /bin/true CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_ID_RUN 1)
set(CMAKE_CXX_COMPILER_ID Clang)
set(CMAKE_CXX_COMPILER_VERSION 22.0)
set(CMAKE_CXX_COMPILER_FRONTEND_VARIANT GNU)
set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CXX_EXTENSIONS_COMPUTED_DEFAULT ON)
set(CMAKE_CXX_COMPILER_WORKS 1)
set(CMAKE_CXX_ABI_COMPILED 1)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_SIZEOF_VOID_P 8)
# nanobind's headers use stderr and leave <cstdio> to the C++ library; libc++ doesn't have it there.
# Without -O zig checks for undefined behaviour, and it always makes what a debugger wants.
# Python's pyconfig.h sets what zig's headers have set before it.
set(CMAKE_CXX_FLAGS_INIT "-g0 -fno-sanitize=undefined -Wno-macro-redefined -include cstdio")
# Headers are parsed where they are named, so that a file which lacks one is found.
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
