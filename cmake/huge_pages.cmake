# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Compilers and linkers get huge pages where the kernel has some on request: docs/decisions/compilers-get-huge-pages.md says why.
# A build with a launcher of its own, such as ccache, keeps it.
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
  set(CMAKE_CXX_LINKER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
