# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# shardwise::compiled is shardwise::shardwise with what all programs compile alike compiled once: see shardwise/compiled.hpp.
# It is built in the project that links it, and with its flags: what is installed are headers.
if(NOT TARGET shardwise_compiled)
  add_library(shardwise_compiled STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/compiled.cpp")
  add_library(shardwise::compiled ALIAS shardwise_compiled)
  target_link_libraries(shardwise_compiled PUBLIC shardwise::shardwise)
  target_compile_definitions(shardwise_compiled PRIVATE SHARDWISE_COMPILES INTERFACE SHARDWISE_COMPILED)
endif()
