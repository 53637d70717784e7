# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Writes shardwise.pc, by which Eigen multiplies matrices, and shardwise-onednn.pc and shardwise-blas.pc, which a program
# names in addition to multiply by these, and shardwise-llm.pc, which it names instead if it has language models. Nothing in them depends on the machine that installs:
# `mpicxx $(pkg-config --cflags shardwise shardwise-onednn) program.cpp $(pkg-config --libs shardwise-onednn)`.
function(shardwise_pc name description fields)
  file(CONFIGURE OUTPUT "${name}.pc" CONTENT
"prefix=\${pcfiledir}/../..
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
${fields}
" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" DESTINATION share/pkgconfig COMPONENT library)
endfunction()
shardwise_pc(shardwise "${PROJECT_DESCRIPTION}"
             "Requires: eigen3\nCflags: -std=c++20 -fno-math-errno -I\${includedir}")
shardwise_pc(shardwise-onednn "Shardwise, with products of float and bfloat16 by oneDNN"
             "Requires: shardwise\nCflags: -DSHARDWISE_GEMM_ONEDNN=1\nLibs: -ldnnl")
shardwise_pc(shardwise-blas "Shardwise, with products of double, or of all that oneDNN does not compute, by OpenBLAS"
             "Requires: shardwise\nCflags: -DSHARDWISE_GEMM_BLAS=1\nLibs: -lopenblas")
shardwise_pc(shardwise-llm "Shardwise, with language models"
             "Requires: shardwise nlohmann_json libpcre2-8 libutf8proc")
