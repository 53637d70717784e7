# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

from spack.package import *


class Shardwise(CMakePackage):
    """Header-only C++20 library for linear algebra and deep learning over MPI: the layout of a tensor is its type."""

    license("Apache-2.0")

    # checkout: for `spack dev-build`
    version("develop")
    # release:
    #| url = "@URL@"
    #|
    #| version("@VERSION@", sha256="@SHA256@")

    variant("onednn", default=True, description="Products of float and bfloat16 by oneDNN")
    variant("openblas", default=True, description="Products of double by OpenBLAS")
    variant("llm", default=True, description="Libraries of shardwise::llm")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("mpi")
    depends_on("eigen@3.4:")
    depends_on("xxhash")
    depends_on("nlohmann-json@3.9:")
    depends_on("onednn", when="+onednn")
    depends_on("openblas", when="+openblas")
    depends_on("pcre2", when="+llm")
    depends_on("range-v3", when="+llm")
    depends_on("utf8proc", when="+llm")

    conflicts("%gcc@:11", msg="Shardwise needs g++ 12 or newer")
    conflicts("%clang@:13", msg="Shardwise needs clang 14 or newer")

    def cmake_args(self):
        return [self.define(f"SHARDWISE_BUILD_{part}", False) for part in ("TESTS", "EXAMPLES", "BENCHMARKS")]
