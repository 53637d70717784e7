# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# clang-tidy on a unit, with clang's flags. The compilation database has those of the compiler that builds.
# cmake -DCLANG_TIDY=… -DFLAGS_FILE=… -DLIMITS=… -DCONFIG=.clang-tidy -P tidy.cmake unit.cpp
cmake_minimum_required(VERSION 3.22)

file(READ "${FLAGS_FILE}" flags)
separate_arguments(flags UNIX_COMMAND "${flags}")
math(EXPR last "${CMAKE_ARGC} - 1")
execute_process(COMMAND "${CLANG_TIDY}" --quiet "--config-file=${CONFIG}" "${CMAKE_ARGV${last}}" -- ${flags} ${LIMITS}
                RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_QUIET)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${out}")
endif()
