# Finds what the build needs, and says what to install before anything is compiled.

set(UNLADEN_WHEEL "pip install --only-binary=:all: unladen needs no compiler")

# Before the language is enabled: CMake's own message doesn't say what to do.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR
          "error: no C++ compiler was found; unladen is built from source here, with C++ 20\n"
          "hint: Debian, Ubuntu: apt-get install g++ python3-dev; Fedora: dnf install gcc-c++ "
          "python3-devel; macOS: xcode-select --install; Windows: winget install LLVM.LLVM and the "
          "Build Tools for Visual Studio, then set CXX=clang++; or take a wheel: ${UNLADEN_WHEEL}")
endif()

# Kernels are written with the vector extensions of GCC and clang. clang-cl has them, but ignores
# flags on which results depend (-ffp-contract).
function(unladen_check_compiler)
  set(is_gnu FALSE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT WIN32)
    set(is_gnu TRUE)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang|IntelLLVM" AND
         NOT CMAKE_CXX_COMPILER_FRONTEND_VARIANT STREQUAL "MSVC")
    set(is_gnu TRUE)
  endif()
  if(NOT is_gnu)
    set(wanted "GCC or clang: set CXX=g++ or CXX=clang++")
    if(WIN32)
      set(wanted "clang with its GNU driver: set CXX=clang++, neither cl nor clang-cl")
    endif()
    message(FATAL_ERROR
            "error: ${CMAKE_CXX_COMPILER} (${CMAKE_CXX_COMPILER_ID}) can't compile the kernels\n"
            "hint: use ${wanted}; or take a wheel: ${UNLADEN_WHEEL}")
  endif()
endfunction()

# Python with its headers, and nanobind.
macro(unladen_find_python)
  find_package(Python 3.11 COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
  if(NOT Python_FOUND)
    message(FATAL_ERROR
            "error: no Python from 3.11 on with its headers: ${Python_NOT_FOUND_MESSAGE}\n"
            "hint: Debian, Ubuntu: apt-get install python3-dev; Fedora: dnf install python3-devel; "
            "or take a wheel: ${UNLADEN_WHEEL}")
  endif()
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT)
  if(NOT nanobind_ROOT)
    message(FATAL_ERROR "error: ${Python_EXECUTABLE} has no nanobind\nhint: "
            "${Python_EXECUTABLE} -m pip install nanobind")
  endif()
  find_package(nanobind CONFIG REQUIRED)
endmacro()
