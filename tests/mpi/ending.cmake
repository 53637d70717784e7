# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Runs ending.cpp and holds how the job ended, and within 20 seconds, against how it must.
# cmake -DWAY=one_throws -DRANKS=3 -DPROGRAM=… -DMPIEXEC=mpirun;-n -P ending.cmake

cmake_minimum_required(VERSION 3.24)

set(code_success 0)
set(code_initialised_before 0)
set(code_one_throws 1)
set(text_one_throws "out of luck")
set(code_all_throw 1)
set(text_all_throw "out of luck")
set(code_first_throws_late 1)
set(text_first_throws_late "out of luck")
set(code_throws_an_int 1)
set(text_throws_an_int "an exception of unknown type")
set(code_throws_in_flight 1)
set(text_throws_in_flight "out of luck")
set(code_one_returns 7)
set(code_all_return 7)
set(code_thread_level_too_low 1)
set(text_thread_level_too_low "MPI provides MPI_THREAD_SINGLE where MPI_THREAD_FUNNELED is required")

execute_process(COMMAND ${MPIEXEC} ${RANKS} "${PROGRAM}" ${WAY} TIMEOUT 20
                RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
set(wrong "")
if(NOT code STREQUAL "${code_${WAY}}")
  string(APPEND wrong "exit code ${code}, expected ${code_${WAY}}\n")
endif()
string(REGEX MATCHALL "shardwise: [^\n]*\n" messages "${out}")
if(DEFINED text_${WAY})
  list(LENGTH messages count)
  if(NOT count EQUAL 1)
    string(APPEND wrong "${count} messages, expected 1\n")
  endif()
  foreach(message IN LISTS messages)
    if(NOT message MATCHES "^shardwise: rank [0-9]+ of ${RANKS}: ${text_${WAY}}")
      string(APPEND wrong "expected '${text_${WAY}}': ${message}")
    endif()
  endforeach()
endif()
if(wrong)
  message("${out}")
  message(FATAL_ERROR "${WAY}: ${wrong}")
endif()
