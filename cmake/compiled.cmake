# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# shardwise::shardwise is shardwise::header_only, with function bodies compiled once (see shardwise/base/bodies.hpp). It is
# built in the project that links it, and with its flags: only headers are installed. shardwise::compiled is its earlier name.
# shardwise::llm adds language models in the same way.
# For both and for what links them, g++ collects its garbage from half a gigabyte on, not from a quarter on: a tenth less
# time or more, for so much more memory.
set(shardwise_late_garbage "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=262144>")
function(shardwise_compiled_once name base)  # and units
  add_library(shardwise_${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(shardwise_${name} PUBLIC ${base})
  # Shared libraries may link it too. Its functions are still inlined in each other.
  set_target_properties(shardwise_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(shardwise_${name} PRIVATE "$<$<CXX_COMPILER_ID:GNU,Clang>:-fno-semantic-interposition>"
                                           PUBLIC "${shardwise_late_garbage}")
endfunction()
if(NOT TARGET shardwise_compiled)
  # Three units: files, language models, and all other headers. The first two leave to the others what these have.
  set(core "")
  set(files "")
  set(llm "")
  file(GLOB_RECURSE headers RELATIVE "${shardwise_include_dir}" CONFIGURE_DEPENDS "${shardwise_include_dir}/shardwise/*/*.hpp")
  list(REMOVE_ITEM headers shardwise/weights/hdf5.hpp)  # programs that include it link HDF5, the library does not
  list(FILTER headers EXCLUDE REGEX  # old paths, which CMakeLists.txt makes
      "^shardwise/(models|text|data)/|^shardwise/(ops|nn|kernel|layout)/(rope|quantized|key_value_cache|block_product|weight_blocks|bounds|product)\\.hpp$")
  foreach(header IN LISTS headers)
    if(header MATCHES "^shardwise/llm/")
      string(APPEND llm "#include <${header}>\n")
    elseif(header MATCHES "^shardwise/(io|weights|checkpoint)/" AND  # but those without JSON and checksums
           NOT header MATCHES "/(direct_writer|file|mapped_file|new_folder|brace_expansion|ranks|stored_type)\\.hpp$")
      string(APPEND files "#include <${header}>\n")
    else()
      string(APPEND core "#include <${header}>\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT shardwise_core.cpp CONTENT "#define SHARDWISE_COMPILES\n@core@" @ONLY)
  file(CONFIGURE OUTPUT shardwise_files.cpp CONTENT
"#define SHARDWISE_COMPILED
@core@#define SHARDWISE_BODIES
#define SHARDWISE_INLINE
#undef SHARDWISE_COMPILE_MEMBER
#define SHARDWISE_COMPILE_MEMBER(...) template __VA_ARGS__;
@files@" @ONLY)
  file(CONFIGURE OUTPUT shardwise_llm.cpp CONTENT
"#ifndef SHARDWISE_COMPILED
#define SHARDWISE_COMPILED
#endif
#define SHARDWISE_INLINE
#define SHARDWISE_LLM_COMPILE(...) template decltype(__VA_ARGS__) __VA_ARGS__;
@llm@" @ONLY)
  set(shardwise_units "${CMAKE_CURRENT_BINARY_DIR}/shardwise_core.cpp")
  if(shardwise_files_FOUND)
    list(APPEND shardwise_units "${CMAKE_CURRENT_BINARY_DIR}/shardwise_files.cpp")
  endif()
  shardwise_compiled_once(compiled shardwise::header_only ${shardwise_units})
  add_library(shardwise::shardwise ALIAS shardwise_compiled)
  add_library(shardwise::compiled ALIAS shardwise_compiled)
  target_compile_definitions(shardwise_compiled INTERFACE SHARDWISE_COMPILED)
  if(shardwise_llm_FOUND)
    list(APPEND shardwise_units "${CMAKE_CURRENT_BINARY_DIR}/shardwise_llm.cpp")
    shardwise_compiled_once(llm "shardwise_compiled;shardwise::llm_header_only" "${CMAKE_CURRENT_BINARY_DIR}/shardwise_llm.cpp")
    target_compile_definitions(shardwise_llm INTERFACE SHARDWISE_LLM_COMPILED)
  else()  # CMake's error for a program that links it names what is missing
    add_library(shardwise_llm INTERFACE)
    string(REGEX REPLACE " \\([^)]*\\)" "" needs "${shardwise_llm_needs}")
    string(REGEX REPLACE "[ ,]+" "_" needs "${needs}")
    target_link_libraries(shardwise_llm INTERFACE "shardwise::llm_needs_${needs}")
  endif()
  add_library(shardwise::llm ALIAS shardwise_llm)
endif()
