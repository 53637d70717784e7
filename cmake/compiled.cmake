# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# shardwise::shardwise is shardwise::header_only, with function bodies compiled once (see shardwise/base/bodies.hpp). It is
# built in the project that links it, and with its flags: only headers are installed. shardwise::compiled is its earlier name.
# For it and for what links it, g++ collects its garbage from half a gigabyte on, not from a quarter on: a tenth less time or
# more, for so much more memory.
set(shardwise_late_garbage "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=262144>")
if(NOT TARGET shardwise_compiled)
  # Two units: the headers of files, with those of Llama and GGUF, and all others but those that need more libraries.
  # The first unit leaves to the second what that has.
  set(core "")
  set(files "")
  file(GLOB_RECURSE headers RELATIVE "${shardwise_include_dir}" CONFIGURE_DEPENDS "${shardwise_include_dir}/shardwise/*/*.hpp")
  list(FILTER headers EXCLUDE REGEX  # old paths, which CMakeLists.txt makes
      "^shardwise/(models|text|data)/|^shardwise/(ops|nn|kernel)/(rope|quantized|key_value_cache|block_product)\\.hpp$")
  foreach(header IN LISTS headers)
    if(header MATCHES "^shardwise/(io|weights|checkpoint|llm/models/llama|llm/gguf)/|/adapter_files.hpp$")
      string(APPEND files "#include <${header}>\n")
    elseif(NOT header MATCHES "^shardwise/llm/(text|data)/")
      string(APPEND core "#include <${header}>\n")
    endif()
  endforeach()
  set(shardwise_units "${CMAKE_CURRENT_BINARY_DIR}/shardwise_core.cpp" "${CMAKE_CURRENT_BINARY_DIR}/shardwise_files.cpp")
  file(CONFIGURE OUTPUT shardwise_core.cpp CONTENT "#define SHARDWISE_COMPILES\n@core@" @ONLY)
  file(CONFIGURE OUTPUT shardwise_files.cpp CONTENT
"#define SHARDWISE_COMPILED
@core@#define SHARDWISE_BODIES
#define SHARDWISE_INLINE
#undef SHARDWISE_COMPILE_MEMBER
#define SHARDWISE_COMPILE_MEMBER(...) template __VA_ARGS__;
@files@" @ONLY)
  add_library(shardwise_compiled STATIC EXCLUDE_FROM_ALL ${shardwise_units})
  add_library(shardwise::shardwise ALIAS shardwise_compiled)
  add_library(shardwise::compiled ALIAS shardwise_compiled)
  target_link_libraries(shardwise_compiled PUBLIC shardwise::header_only)
  # Shared libraries may link it too. Its functions are still inlined in each other.
  set_target_properties(shardwise_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(shardwise_compiled PRIVATE "$<$<CXX_COMPILER_ID:GNU,Clang>:-fno-semantic-interposition>")
  target_compile_definitions(shardwise_compiled INTERFACE SHARDWISE_COMPILED)
  target_compile_options(shardwise_compiled PUBLIC "${shardwise_late_garbage}")
endif()
