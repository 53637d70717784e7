# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# The first code of a page is a program, from its first #include on, so that it is compiled and run.
# cmake -DPAGE=README.md -DPROGRAM=examples/mlp.cpp -P begins_with.cmake

cmake_minimum_required(VERSION 3.22)

file(READ "${PROGRAM}" program)
file(READ "${PAGE}" page)
string(FIND "${program}" "#include" begin)
string(SUBSTRING "${program}" ${begin} -1 program)
string(FIND "${page}" "```cpp\n" first)
string(FIND "${page}" "```cpp\n${program}```" place)
if(first EQUAL -1 OR NOT place EQUAL first)
  message(FATAL_ERROR "the first code of ${PAGE} is not ${PROGRAM}")
endif()
