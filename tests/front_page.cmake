# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# The program of docs/README.md compiles. With `matmul` in it, clang++ prints the error that the page shows after it, apart
# from line breaks. cmake "-DCOMMAND=clang++;its;flags" -DPAGE=docs/README.md -DWORK=… -P front_page.cmake
cmake_minimum_required(VERSION 3.22)

file(READ "${PAGE}" page)
if(NOT page MATCHES "\n```cpp\n([^`]*)```\n.*`(sw::matmul[^`]*)`.*\n```\n(main.cpp:[^`]*)```")
  message(FATAL_ERROR "${PAGE} does not have a program, a call of matmul and an error")
endif()
set(program "${CMAKE_MATCH_1}")
set(mistake "${CMAKE_MATCH_2}")
set(expected "${CMAKE_MATCH_3}")
string(REGEX REPLACE "sw::matrix_product[^;]*;" "${mistake};" wrong "${program}")

file(WRITE "${WORK}/right/main.cpp" "${program}")
file(WRITE "${WORK}/main.cpp" "${wrong}")
execute_process(COMMAND ${COMMAND} -fsyntax-only "${WORK}/right/main.cpp" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMMAND} -fsyntax-only "${WORK}/main.cpp" ERROR_VARIABLE said)
string(REGEX REPLACE "[ \n]" "" expected "${expected}")
string(REGEX REPLACE "[ \n]" "" printed "${said}")
string(FIND "${printed}" "${expected}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not show what clang++ prints:\n${said}")
endif()
