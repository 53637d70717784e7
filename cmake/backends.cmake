# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Finds xxHash, and what Shardwise uses if it is there: libraries that multiply matrices, range-v3 for
# shardwise/llm/data, and the libraries of shardwise::tokenizer. Our CMakeLists.txt reads this, and so does
# find_package(shardwise), on the machine of the build and not on that of the installation. Input: SHARDWISE_GEMM.
# Results: shardwise_onednn, shardwise_blas, shardwise_tokenizer_FOUND, shardwise_gemm_text; shardwise_problem is the
# text of an error, or empty.

set(shardwise_module_path "${CMAKE_MODULE_PATH}")
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
set(shardwise_problem "")
set(shardwise_onednn FALSE)
set(shardwise_blas FALSE)

# oneDNN is the fastest for float and bfloat16, a good BLAS is next and serves double; Eigen multiplies where neither is found.
string(TOLOWER "${SHARDWISE_GEMM}" shardwise_gemm)
if(shardwise_gemm MATCHES "^(auto|onednn)$")
  find_package(DNNL MODULE QUIET)
  set(shardwise_onednn ${DNNL_FOUND})
  if(shardwise_gemm STREQUAL "onednn" AND NOT DNNL_FOUND)
    set(shardwise_problem "SHARDWISE_GEMM=onednn, but dnnl.h or libdnnl is missing (Debian: libdnnl-dev)")
  endif()
endif()
if(shardwise_gemm MATCHES "^(auto|onednn|blas)$")
  set(shardwise_vendor "${BLA_VENDOR}")
  if(NOT BLA_VENDOR AND NOT shardwise_gemm STREQUAL "blas")
    set(BLA_VENDOR OpenBLAS)  # the reference BLAS is slower than Eigen
  endif()
  if(TARGET BLAS::BLAS)  # which the project has found before
    set(shardwise_blas TRUE)
  else()
    find_package(BLAS QUIET)
    set(shardwise_blas ${BLAS_FOUND})
  endif()
  set(BLA_VENDOR "${shardwise_vendor}")
  if(shardwise_gemm STREQUAL "blas" AND NOT shardwise_blas)
    set(shardwise_problem "SHARDWISE_GEMM=blas, but no BLAS was found (Debian: libopenblas-dev; BLA_VENDOR chooses)")
  endif()
elseif(NOT shardwise_gemm STREQUAL "eigen")
  set(shardwise_problem "SHARDWISE_GEMM=${SHARDWISE_GEMM}: choose auto, onednn, blas or eigen")
endif()

if(shardwise_onednn AND shardwise_blas)
  set(shardwise_gemm_text "oneDNN for float and bfloat16, BLAS for double (${BLAS_LIBRARIES})")
elseif(shardwise_onednn)
  set(shardwise_gemm_text "oneDNN for float and bfloat16, Eigen for double")
elseif(shardwise_blas)
  set(shardwise_gemm_text "BLAS (${BLAS_LIBRARIES})")
else()
  set(shardwise_gemm_text "Eigen ${Eigen3_VERSION}")
endif()

# All files have checksums by the header of xxHash. (Debian ships no package of CMake for it.)
find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHASH_INCLUDE_DIR)
if(NOT XXHASH_INCLUDE_DIR)
  set(shardwise_problem "xxhash.h is missing (Debian: libxxhash-dev; XXHASH_INCLUDE_DIR is its folder)")
endif()
find_package(range-v3 QUIET)

# llm/text/tokenizer.hpp matches with PCRE2 and normalizes with utf8proc, which nothing else needs.
find_package(PCRE2 MODULE QUIET)
find_package(Utf8proc MODULE QUIET)
set(shardwise_tokenizer_FOUND FALSE)
if(PCRE2_FOUND AND Utf8proc_FOUND)
  set(shardwise_tokenizer_FOUND TRUE)
endif()
set(CMAKE_MODULE_PATH "${shardwise_module_path}")

# Links `target` to what was found. An installation exports nothing of it.
function(shardwise_link_backends target)
  target_include_directories(${target} SYSTEM INTERFACE "$<BUILD_INTERFACE:${XXHASH_INCLUDE_DIR}>")
  if(TARGET range-v3::range-v3)
    target_link_libraries(${target} INTERFACE "$<BUILD_INTERFACE:range-v3::range-v3>")
  endif()
  if(shardwise_onednn)
    target_compile_definitions(${target} INTERFACE "$<BUILD_INTERFACE:SHARDWISE_GEMM_ONEDNN=1>")
    target_link_libraries(${target} INTERFACE "$<BUILD_INTERFACE:DNNL::dnnl>")
  endif()
  if(shardwise_blas)
    target_compile_definitions(${target} INTERFACE "$<BUILD_INTERFACE:SHARDWISE_GEMM_BLAS=1>")
    target_link_libraries(${target} INTERFACE "$<BUILD_INTERFACE:BLAS::BLAS>")
  endif()
endfunction()
