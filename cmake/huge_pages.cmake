# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Compilers get huge pages where the kernel has some for who asks. g++ maps what was precompiled, up to 200 MB, and touches half of
# it in pages of 4 KiB: 22,000 page faults for a program of three lines. On a virtual machine where a fault takes 15 µs, and one at a
# time, two compilers at once then take as long as one after the other (docs/decisions/what-all-programs-compile-alike.md).
# Who has a launcher of their own, such as ccache, keeps it.
if(DEFINED CMAKE_CXX_COMPILER_LAUNCHER OR NOT EXISTS /sys/kernel/mm/transparent_hugepage/enabled)
  return()
endif()
file(READ /sys/kernel/mm/transparent_hugepage/enabled pages)
if(NOT pages MATCHES "\\[(madvise|always)\\]")
  return()
endif()
set(preloaded "${CMAKE_CURRENT_BINARY_DIR}/huge_pages.so")
if("${CMAKE_CURRENT_LIST_DIR}/huge_pages.cpp" IS_NEWER_THAN "${preloaded}")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -O2 -shared -fPIC "${CMAKE_CURRENT_LIST_DIR}/huge_pages.cpp" -o "${preloaded}"
                  OUTPUT_QUIET ERROR_QUIET)
endif()
if(EXISTS "${preloaded}")
  set(CMAKE_CXX_COMPILER_LAUNCHER env "LD_PRELOAD=${preloaded}" GLIBC_TUNABLES=glibc.malloc.hugetlb=1)
endif()
