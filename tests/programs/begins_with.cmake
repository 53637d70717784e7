# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# The first blocks of code of a page are these programs, each from its first #include on, so that they are compiled and run.
# cmake -DPAGE=README.md "-DPROGRAMS=examples/matrix_product.cpp;examples/mlp.cpp" -P begins_with.cmake

cmake_minimum_required(VERSION 3.22)

file(READ "${PAGE}" page)
foreach(path IN LISTS PROGRAMS)
  file(READ "${path}" program)
  string(FIND "${program}" "#include" begin)
  string(SUBSTRING "${program}" ${begin} -1 program)
  string(FIND "${page}" "```cpp\n" first)
  string(FIND "${page}" "```cpp\n${program}```" place)
  if(first EQUAL -1 OR NOT place EQUAL first)
    message(FATAL_ERROR "the next code of ${PAGE} is not ${path}")
  endif()
  math(EXPR after "${first} + 1")
  string(SUBSTRING "${page}" ${after} -1 page)
endforeach()
