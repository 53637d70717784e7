# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Headers are floors: each includes only its own and those below. `cmake -DINCLUDE=…/include -P includes.cmake`
cmake_minimum_required(VERSION 3.24)

set(below_layout layout)
set(below_mesh layout mesh)
set(below_kernel layout kernel)
set(below_tensor layout mesh kernel tensor)
set(below_autograd ${below_tensor} autograd)
set(below_ops ${below_autograd} ops)
set(below_nn ${below_ops} nn)
foreach(top optim data io inspect)
  set(below_${top} ${below_nn} ${top})
endforeach()

list(APPEND below_data io)  # token files
set(std "^[a-z0-9_]+$")            # <vector>
set(mpi "^mpi\\.h$")
set(pages "^sys/mman\\.h$|^unistd\\.h$")
set(signals "^signal\\.h$")
set(eigen "^(unsupported/)?Eigen/")
set(range "^range/v3/")
set(may_layout "${std}")
set(may_mesh "${std}")             # and mesh/mpi.hpp alone: mpi.h
set(may_kernel "${std}|${eigen}|^dnnl\\.h$|^[a-z0-9]*intrin\\.h$")  # and kernel/held_signals.hpp alone: signal.h
set(may_tensor "${std}|${eigen}")  # and tensor/large_blocks.hpp alone: what gives pages
set(may_autograd "${std}|${eigen}")
set(may_ops "${std}|${eigen}")
foreach(layer nn optim data io inspect)
  set(may_${layer} "${std}|${eigen}|${range}")
endforeach()
set(may_data "${may_data}|^nlohmann/|^pcre2\\.h$")
set(may_io "${may_io}|^(fcntl|unistd)\\.h$|^sys/|^nlohmann/json\\.hpp$")

set(wrong "")
file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp")
foreach(header IN LISTS headers)
  if(header MATCHES "^shardwise/[a-z_]+\\.hpp$")
    continue()  # an umbrella
  endif()
  string(REGEX REPLACE "^shardwise/([a-z]+)/.*" "\\1" layer "${header}")
  if(NOT DEFINED below_${layer})
    string(APPEND wrong "${header}: no such layer as '${layer}'\n")
    continue()
  endif()
  file(STRINGS "${INCLUDE}/${header}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]*)[>\"].*" "\\1" file "${line}")
    if(file MATCHES "^shardwise/([a-z]+)/")
      if(NOT CMAKE_MATCH_1 IN_LIST below_${layer})
        string(APPEND wrong "${header}: includes ${file}, but ${layer}/ may know only: ${below_${layer}}\n")
      endif()
    elseif(file MATCHES "${mpi}" AND header STREQUAL "shardwise/mesh/mpi.hpp")
      # the one place
    elseif(file MATCHES "${pages}" AND header STREQUAL "shardwise/tensor/large_blocks.hpp")
      # the one place
    elseif(file MATCHES "${signals}" AND header STREQUAL "shardwise/kernel/held_signals.hpp")
      # the one place
    elseif(NOT file MATCHES "${may_${layer}}")
      string(APPEND wrong "${header}: includes ${file}, which is not for ${layer}/\n")
    endif()
  endforeach()
endforeach()
if(wrong)
  message("${wrong}")
  message(FATAL_ERROR "Includes that do not point down")
endif()
list(LENGTH headers count)
message("${count} headers, all pointing down")
