# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

cmake_minimum_required(VERSION 3.24)

# Builds and runs somebody else's program in one of the ways that users have: WAY is find_package, compiled (the same,
# linking shardwise::compiled), add_subdirectory, pkg_config (mpicxx, and what is installed) or plain (mpicxx and -I, no CMake).

function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " line)
    message("${line}\n${out}")
    message(FATAL_ERROR "ended with ${code}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

set(source "${CMAKE_CURRENT_LIST_DIR}")
set(program "${WORK}/build/consumer")
set(target shardwise)
if(WAY STREQUAL "compiled")
  set(target compiled)
endif()
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}")
set(configure "${CMAKE_COMMAND}" -S "${source}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/build")

if(WAY MATCHES "^(find_package|compiled)$")
  must("${CMAKE_COMMAND}" --install "${SHARDWISE_BUILD}" --prefix "${WORK}/prefix" --component library)
  must(${configure} "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DSHARDWISE_VERSION=${SHARDWISE_VERSION}"
       "-DSHARDWISE_TARGET=${target}")
  must("${CMAKE_COMMAND}" --build "${WORK}/build")
elseif(WAY STREQUAL "add_subdirectory")
  must(${configure} "-DSHARDWISE_SOURCE=${SHARDWISE_SOURCE}")
  must("${CMAKE_COMMAND}" --build "${WORK}/build")
elseif(WAY STREQUAL "pkg_config")
  must("${CMAKE_COMMAND}" --install "${SHARDWISE_BUILD}" --prefix "${WORK}/prefix" --component library)
  set(ENV{PKG_CONFIG_PATH} "${WORK}/prefix/share/pkgconfig")
  must(pkg-config --cflags --libs "shardwise = ${SHARDWISE_VERSION}")
  separate_arguments(flags UNIX_COMMAND "${out}")
  set(ENV{OMPI_CXX} "${COMPILER}")
  must("${MPI_COMPILER}" "${source}/consumer.cpp" ${flags} -o "${program}")
elseif(WAY STREQUAL "plain")
  string(REPLACE "|" ";" EIGEN "${EIGEN}")
  list(TRANSFORM EIGEN PREPEND -isystem)
  set(ENV{OMPI_CXX} "${COMPILER}")
  must("${MPI_COMPILER}" -std=c++20 -Wall -Wextra "-I${SHARDWISE_SOURCE}/include" ${EIGEN}
       "${source}/consumer.cpp" -o "${program}")
endif()
must("${program}")
if(NOT out MATCHES "consumer: 1 of 1")
  message(FATAL_ERROR "the program said: ${out}")
endif()
