# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Conan 2: `conan create FOLDER`, of this folder."""

import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, load


class Shardwise(ConanFile):
    name = "shardwise"
    description = "Linear algebra over MPI whose layout is its type"
    license = "Apache-2.0"
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"onednn": [True, False], "openblas": [True, False], "llm": [True, False]}
    default_options = {"onednn": False, "openblas": True, "llm": False}

    # checkout:
    @property
    def root(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self.root, "include", "shardwise", "version.hpp"))
        self.version = re.search(r'#define SHARDWISE_VERSION "(.*)"', header).group(1)

    def export_sources(self):
        for folder in ("include", "cmake", "docs", "benchmarks", "examples"):
            copy(self, "*", os.path.join(self.root, folder), os.path.join(self.export_sources_folder, folder))
        for file in ("CMakeLists.txt", "LICENSE", "CITATION.cff", "README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md",
                     "CONTRIBUTING.md", "SECURITY.md"):
            copy(self, file, self.root, self.export_sources_folder)

    # release:
    #| version = "@VERSION@"
    #|
    #| def source(self):
    #|     get(self, "@URL@", sha256="@SHA256@", strip_root=True)

    def requirements(self):
        self.requires("eigen/[>=3.4.0]")
        self.requires("xxhash/[>=0.8.0]")
        self.requires("nlohmann_json/[>=3.9.0]")
        self.requires("openmpi/[>=4.1.0 <6]")
        if self.options.onednn:
            self.requires("onednn/[>=2.6]")
        if self.options.openblas:
            self.requires("openblas/[>=0.3.20]")
        if self.options.llm:
            self.requires("pcre2/[>=10.36]")
            self.requires("range-v3/[>=0.11.0]")
            self.requires("utf8proc/[>=2.5]")

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"SHARDWISE_BUILD_{part}"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        CMake(self).configure()  # headers only

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # Its own package of CMake chooses what multiplies matrices on the machine that builds.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "shardwise")]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
