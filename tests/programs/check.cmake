# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Runs an example program and holds what it prints, and whether it succeeds, against what it must.
# cmake "-DRUN=mpirun;-n;2;program;options…" -DCODE=zero|non-zero|non-zero-of-all "-DEXPECT=regex|regex…" -DPRELOAD=library
#       "-DALSO=mpirun;-n;3;program;options…" "-DSAME=regex" -P check.cmake
# What SAME matches first in the output, the run ALSO must print too.

cmake_minimum_required(VERSION 3.22)

if(PRELOAD)
  set(ENV{LD_PRELOAD} "${PRELOAD}")
  set(ENV{SHARDWISE_TRANSPORT} mpi)
endif()
execute_process(COMMAND ${RUN} TIMEOUT 100 RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
set(wrong "")
if(CODE STREQUAL "zero" AND NOT code EQUAL 0)
  set(wrong "exit code ${code}, expected 0\n")
elseif(CODE MATCHES "^non-zero" AND NOT code MATCHES "^[1-9][0-9]*$")
  set(wrong "exit code '${code}', expected a number that is not 0\n")
endif()
if(CODE STREQUAL "non-zero-of-all" AND out MATCHES "MPI_ABORT was invoked")
  string(APPEND wrong "all ranks fail, but MPI is aborted\n")
endif()
string(REPLACE "|" ";" patterns "${EXPECT}")
foreach(pattern IN LISTS patterns)
  if(NOT out MATCHES "${pattern}")
    string(APPEND wrong "nothing matches: ${pattern}\n")
  endif()
endforeach()
if(out MATCHES "DIFFERS|TOO LARGE|NOT all within")
  string(APPEND wrong "the program itself found a difference\n")
endif()
if(ALSO)
  execute_process(COMMAND ${ALSO} TIMEOUT 100
                  RESULT_VARIABLE also_code OUTPUT_VARIABLE also_out ERROR_VARIABLE also_out)
  string(REGEX MATCH "${SAME}" part "${out}")
  string(REGEX MATCH "${SAME}" also_part "${also_out}")
  if(NOT also_code EQUAL 0 OR part STREQUAL "" OR NOT part STREQUAL also_part)
    string(APPEND wrong "the other run ends with ${also_code} and prints something else:\n${also_out}\n")
  endif()
endif()
# Nonsense deserves one clear message, not one per rank.
string(REGEX MATCHALL "shardwise: rank" messages "${out}")
list(LENGTH messages count)
if(count GREATER 1)
  string(APPEND wrong "${count} messages\n")
endif()
if(wrong)
  message("${out}")
  message(FATAL_ERROR "${wrong}")
endif()
