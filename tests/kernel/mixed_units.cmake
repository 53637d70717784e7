# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Links units with the same and with different SHARDWISE_GEMM_* macros or versions, in WORK: by COMMAND, a compiler and its flags.
cmake_minimum_required(VERSION 3.22)

file(MAKE_DIRECTORY "${WORK}")
file(WRITE "${WORK}/main.cpp" "#include <shardwise/kernel/gemm.hpp>\nint other();\nint main() { return other(); }\n")
file(WRITE "${WORK}/other.cpp" "#include <shardwise/kernel/gemm.hpp>\nint other() { return 0; }\n")

file(WRITE "${WORK}/another.cpp" "#include <shardwise/version.hpp>\n#undef SHARDWISE_VERSION_MINOR\n"
     "#define SHARDWISE_VERSION_MINOR 999\n#include <shardwise/kernel/gemm.hpp>\nint other() { return 0; }\n")

set(none -USHARDWISE_GEMM_ONEDNN -USHARDWISE_GEMM_BLAS)
function(object unit name)
  execute_process(COMMAND ${COMMAND} -O0 ${none} ${ARGN} -c "${WORK}/${unit}.cpp" -o "${WORK}/${name}.o" COMMAND_ERROR_IS_FATAL ANY)
endfunction()
object(main eigen_main)
object(other eigen)
object(other blas -DSHARDWISE_GEMM_BLAS=1)
object(another version)
set(libraries eigen blas version)
if(ONEDNN)
  object(other onednn -DSHARDWISE_GEMM_ONEDNN=1)
  list(APPEND libraries onednn)
endif()

list(GET COMMAND 0 compiler)
foreach(library IN LISTS libraries)
  # As an object, and out of an archive.
  execute_process(COMMAND ar rcs "${WORK}/lib${library}.a" "${WORK}/${library}.o" COMMAND_ERROR_IS_FATAL ANY)
  foreach(file ${library}.o lib${library}.a)
    execute_process(COMMAND "${compiler}" "${WORK}/eigen_main.o" "${WORK}/${file}" -o "${WORK}/program"
                    RESULT_VARIABLE code ERROR_VARIABLE said)
    if(library STREQUAL "eigen")
      if(NOT code EQUAL 0)
        message(FATAL_ERROR "units with the same macros do not link: ${said}")
      endif()
      execute_process(COMMAND "${WORK}/program" COMMAND_ERROR_IS_FATAL ANY)
    elseif(code EQUAL 0)
      message(FATAL_ERROR "a unit that multiplies by Eigen, of this version, links with ${file}")
    elseif(NOT said MATCHES "units_differ_in_SHARDWISE_GEMM_or_VERSION")
      message(FATAL_ERROR "the linker does not say why it refuses ${file}: ${said}")
    endif()
  endforeach()
endforeach()
