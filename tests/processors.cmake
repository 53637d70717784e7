# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# A unit compiles for a processor without a warning, with precompiled headers as most of the tests.
# cmake -DCOMPILER=g++ -DFLAGS_FILE=… -DFLAGS=… -DMARCH=x86-64-v4 -DPRECOMPILED="<Eigen/Core>" -DSOURCE=file.cpp
#       -DWORK=folder -P processors.cmake
cmake_minimum_required(VERSION 3.22)

set(text "")
foreach(header IN LISTS PRECOMPILED)
  string(APPEND text "#include ${header}\n")
endforeach()
file(WRITE "${WORK}/precompiled.hpp" "${text}")
set(command ${COMPILER} "@${FLAGS_FILE}" ${FLAGS} -march=${MARCH} -O1 -Werror)
foreach(what "-x;c++-header;${WORK}/precompiled.hpp;-o;${WORK}/precompiled.hpp.gch"
             "-include;${WORK}/precompiled.hpp;-S;${SOURCE};-o;${WORK}/unit.s")
  execute_process(COMMAND ${command} ${what} RESULT_VARIABLE code ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    string(SUBSTRING "${out}" 0 4000 out)
    message(FATAL_ERROR "${SOURCE} does not compile for ${MARCH}:\n${out}")
  endif()
endforeach()
