# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Headers are floors: each includes only its own and those below. `cmake -DINCLUDE=…/include -P includes.cmake`
cmake_minimum_required(VERSION 3.24)

# Each folder, and those that it stands on; it may also use what these stand on.
function(room name)
  set(below "${name}")
  foreach(other IN LISTS ARGN)
    if(NOT DEFINED below_${other})
      message(FATAL_ERROR "room(${name} ${other}): ${other}/ is not below it")
    endif()
    list(APPEND below ${below_${other}})
  endforeach()
  list(REMOVE_DUPLICATES below)
  set(below_${name} "${below}" PARENT_SCOPE)
endfunction()

room(layout)
room(schedule layout)
room(memory layout)
room(mesh memory)
room(kernel layout)
room(io layout)
room(tensor mesh kernel)
room(autograd tensor)
room(ops autograd)
room(module ops)
room(parallel module)
room(nn parallel)
room(train module)
room(pipeline train schedule)
room(weights module io)
room(checkpoint weights)
room(text kernel io)
room(data text tensor)
room(models nn train checkpoint schedule)
room(inspect module)
room(simulate mesh)

set(std "^[a-z0-9_]+$")            # <vector>
set(mpi "^mpi\\.h$")
set(node "^(fcntl|unistd)\\.h$|^sys/|^linux/futex\\.h$")
set(pages "^sys/mman\\.h$|^unistd\\.h$")
set(signals "^signal\\.h$")
set(places "^(dlfcn|execinfo)\\.h$")
set(threads "^pthread\\.h$|^signal\\.h$")
set(eigen "^(unsupported/)?Eigen/")
set(range "^range/v3/")
set(json "^nlohmann/")
set(files "^(fcntl|pwd|unistd)\\.h$|^sys/")
set(may_layout "${std}")
set(may_schedule "${std}")
# And mesh/mpi.hpp alone: mpi.h; mesh/thread.hpp alone: what gives a thread; what shares memory: the system's.
set(may_mesh "${std}|^sched\\.h$")
set(may_kernel "${std}|${eigen}|^dnnl\\.h$|^[a-z0-9]*intrin\\.h$")  # and kernel/onednn.hpp alone: signal.h
set(may_memory "${std}")           # and memory/large_blocks.hpp alone: what gives pages
foreach(room tensor autograd ops module parallel inspect simulate)
  set(may_${room} "${std}|${eigen}")
endforeach()
foreach(room nn train pipeline models)
  set(may_${room} "${std}|${eigen}|${range}|${json}")
endforeach()
foreach(room io weights checkpoint data)
  set(may_${room} "${std}|${eigen}|${range}|${json}|${files}")
endforeach()
set(may_text "${std}|${range}|${json}|^pcre2\\.h$|^utf8proc\\.h$")

set(wrong "")
file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp")
foreach(header IN LISTS headers)
  if(header MATCHES "^shardwise/[a-z_]+\\.hpp$")
    continue()  # an umbrella
  endif()
  string(REGEX REPLACE "^shardwise/([a-z]+)/.*" "\\1" room "${header}")
  if(NOT DEFINED below_${room})
    string(APPEND wrong "${header}: no such room as '${room}'\n")
    continue()
  endif()
  file(STRINGS "${INCLUDE}/${header}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]*)[>\"].*" "\\1" file "${line}")
    if(file MATCHES "^shardwise/([a-z]+)/")
      if(NOT CMAKE_MATCH_1 IN_LIST below_${room})
        string(APPEND wrong "${header}: includes ${file}, but ${room}/ may know only: ${below_${room}}\n")
      endif()
    elseif(file STREQUAL "shardwise/version.hpp")
      # nothing but numbers
    elseif(file MATCHES "${mpi}" AND header STREQUAL "shardwise/mesh/mpi.hpp")
      # the one place
    elseif(file MATCHES "${node}" AND header MATCHES "^shardwise/mesh/(shared_segment|node_rounds)\\.hpp$")
      # the memory of a node
    elseif(file MATCHES "${node}" AND header STREQUAL "shardwise/mesh/environment.hpp")
      # what memory a process has had, for an error
    elseif(file MATCHES "${places}" AND header STREQUAL "shardwise/mesh/place_in_program.hpp")
      # the one place
    elseif(file MATCHES "${pages}" AND header STREQUAL "shardwise/memory/large_blocks.hpp")
      # the one place
    elseif(file MATCHES "${threads}" AND header STREQUAL "shardwise/mesh/thread.hpp")
      # the one place
    elseif(file MATCHES "${signals}" AND header STREQUAL "shardwise/kernel/onednn.hpp")
      # the one place
    elseif(NOT file MATCHES "${may_${room}}")
      string(APPEND wrong "${header}: includes ${file}, which is not for ${room}/\n")
    endif()
  endforeach()
endforeach()
if(wrong)
  message("${wrong}")
  message(FATAL_ERROR "Includes that do not point down")
endif()
list(LENGTH headers count)
message("${count} headers, all pointing down")
