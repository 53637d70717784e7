# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

cmake_minimum_required(VERSION 3.22)

# A program that must not compile is a test of its error message. Each *.cpp here has
#
#   // expect: regex            one or more; each must match somewhere in what the compiler says, without
#                               `shardwise::` and with `>>`, so that the words of g++ and clang++ are the same
#   #ifdef SHOULD_FAIL
#     the mistake
#   #else
#     its twin, which must compile without a warning: so that a misspelling cannot pass for the mistake
#   #endif
#
# The mistake must give exactly one error, at a line of the file itself (with `// in a header`: an assertion there, after
# which the file is named), in at most 12 lines of output (25). (The twins of all
# files are compiled together, in the tests compile_fail.twins.) What the compiler says is written to SAID.
# cmake "-DCOMMAND=g++;its;flags" -DSOURCE=file.cpp -DSAID=file.txt -P check.cmake

set(ENV{LC_ALL} C)
set(command ${COMMAND} -fsyntax-only "${SOURCE}")
cmake_path(GET SOURCE FILENAME name)

file(STRINGS "${SOURCE}" expectations REGEX "^// expect: ")
if(NOT expectations)
  message(FATAL_ERROR "${name} has no line '// expect: regex'")
endif()
file(STRINGS "${SOURCE}" in_a_header REGEX "^// in a header$")
file(READ "${SOURCE}" text)
if(NOT text MATCHES "\n#ifdef SHOULD_FAIL\n.*\n#else[^\n]*\n.*\n#endif")
  message(FATAL_ERROR "${name} has no '#ifdef SHOULD_FAIL … #else … #endif'")
endif()

execute_process(COMMAND ${command} -DSHOULD_FAIL RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
file(WRITE "${SAID}" "${out}")
if(code EQUAL 0)
  message(FATAL_ERROR "${name}: compiled, but must not")
endif()

string(REGEX REPLACE "[][;]" "." plain "${out}")  # what would upset CMake's lists
string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${plain}")
string(REGEX MATCHALL "\n" lines "${plain}")
list(LENGTH errors error_count)
list(LENGTH lines line_count)
set(wrong "")
if(NOT error_count EQUAL 1)
  string(APPEND wrong "${error_count} errors where there must be one\n")
else()
  string(REGEX REPLACE "[][;]" "." plain_source "${SOURCE}")
  string(FIND "${errors}" "${plain_source}:" at)
  if(in_a_header)
    string(FIND "${plain}" "\n${plain_source}:" at)
    if(at EQUAL -1)
      string(APPEND wrong "no note names a line of ${name}\n")
    endif()
  elseif(NOT at EQUAL 0)
    string(APPEND wrong "the error is not at a line of ${name}\n")
  endif()
endif()
set(most_lines 12)
if(in_a_header)
  set(most_lines 25)
endif()
if(line_count GREATER most_lines)
  string(APPEND wrong "${line_count} lines of output where ${most_lines} are allowed\n")
endif()
string(REPLACE "shardwise::" "" words "${out}")
foreach(depth RANGE 5)
  string(REPLACE "> >" ">>" words "${words}")
endforeach()
string(REPLACE "Partial<Sum>" "Partial<>" words "${words}")
# A name is Name<FixedString<3>{"up"}> for g++, Name<'u', 'p'> for clang++: Name<up>.
string(REGEX REPLACE "FixedString<[0-9]+>{\"([^\"]*)\"}" "\\1" words "${words}")
string(REGEX REPLACE "'([][A-Za-z0-9_.*:-])'(, )?" "\\1" words "${words}")
foreach(expectation IN LISTS expectations)
  string(REGEX REPLACE "^// expect: " "" expectation "${expectation}")
  if(NOT words MATCHES "${expectation}")
    string(APPEND wrong "nothing matches: ${expectation}\n")
  endif()
endforeach()
message("${out}")
if(wrong)
  message(FATAL_ERROR "${name}: ${wrong}")
endif()
