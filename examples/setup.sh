#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# What Shardwise needs from the machine, and how its programs are built. Run by itself it sets the machine up;
# examples/run.sh and tests/run.sh source it. Where there is apt, and root or a sudo that asks nothing, it installs
# what is missing, and only that. Elsewhere it names what to install, and stops.
#
#   SHARDWISE_SKIP_SETUP=1         believe that everything is there, look at nothing
#   SHARDWISE_CMAKE_OPTIONS="…"    more options for cmake, in words

shardwise_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
shardwise_build="$shardwise_root/build"

# How many cores there are here, whatever OMP_NUM_THREADS says, which nproc obeys.
shardwise_cores() {
  env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || echo 2
}

# Programs may run as root in a container, and with more ranks than cores: then idle ranks must yield, and no rank may
# have a core to itself.
shardwise_mpi_environment() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  export OMP_NUM_THREADS=1
  export OMPI_MCA_orte_execute_quiet=1  # a failing rank's own message is enough
  local ranks=$1
  if ((ranks > $(shardwise_cores))); then
    export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
  fi
}

# has_header FILE [COMPILER OPTIONS]; has_library NAME
shardwise_has_header() {
  local header=$1
  shift
  echo "#include <$header>" | "${CXX:-g++}" -std=c++20 -E -x c++ "$@" -o /dev/null - 2>/dev/null
}
shardwise_has_library() {
  echo 'int main() {}' | "${CXX:-g++}" -x c++ -o /dev/null - "-l$1" 2>/dev/null
}
shardwise_has_fuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null
}
shardwise_has_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  [[ -n $version ]] && ((${version% *} > 3 || (${version% *} == 3 && ${version#* } >= 22)))
}

# Prints, a line each, "PACKAGE what it is" for what is missing. Arguments: tests (doctest and the second compiler too), or
# full (for all tests).
shardwise_missing() {
  local with_tests=${1:-}
  command -v "${CXX:-g++}" >/dev/null || echo "g++ a C++20 compiler (g++ 12, clang 14 or newer)"
  shardwise_has_cmake || echo "cmake CMake 3.22 or newer"
  command -v ninja >/dev/null || echo "ninja-build Ninja"
  command -v mpicxx >/dev/null || echo "libopenmpi-dev Open MPI's headers and mpicxx"
  command -v mpirun >/dev/null || echo "openmpi-bin mpirun"
  shardwise_has_header Eigen/Core -isystem /usr/include/eigen3 -isystem /usr/local/include/eigen3 ||
    echo "libeigen3-dev Eigen 3.4"
  shardwise_has_header range/v3/version.hpp || echo "librange-v3-dev range-v3"
  shardwise_has_header xxhash.h || echo "libxxhash-dev xxHash"
  shardwise_has_header nlohmann/json.hpp || echo "nlohmann-json3-dev JSON for Modern C++"
  shardwise_has_header CLI/CLI.hpp || echo "libcli11-dev CLI11"
  shardwise_has_header pcre2.h -DPCRE2_CODE_UNIT_WIDTH=8 || echo "libpcre2-dev PCRE2"
  shardwise_has_header utf8proc.h || echo "libutf8proc-dev utf8proc"
  shardwise_has_header boost/beast/core/tcp_stream.hpp || echo "libboost-dev Boost.Beast"
  # Without these two Eigen multiplies the matrices: it is slower, so only apt is asked for them.
  if command -v apt-get >/dev/null; then
    shardwise_has_header dnnl.h || echo "libdnnl-dev oneDNN"
    shardwise_has_library openblas || echo "libopenblas-dev OpenBLAS"
  fi
  if [[ -n $with_tests ]]; then
    shardwise_has_header doctest/doctest.h || echo "doctest-dev doctest"
    command -v python3 >/dev/null || echo "python3 Python 3"
    if command -v apt-get >/dev/null; then
      command -v clang++ >/dev/null || echo "clang the second compiler of the tests"
      command -v ip >/dev/null || echo "iproute2 hosts on one machine, for tests as root"
    fi
  fi
  if [[ $with_tests == full ]]; then
    if command -v apt-get >/dev/null; then
      shardwise_has_library elpa || echo "libelpa-dev ELPA"
      shardwise_has_library scalapack-openmpi || echo "libscalapack-openmpi-dev ScaLAPACK"
      command -v reuse >/dev/null || echo "reuse a check of copyright and licenses"
      command -v chromium >/dev/null || echo "chromium a browser for the tests of pages"
      command -v dpkg-source >/dev/null || echo "dpkg-dev Debian's source package of a release"
      command -v doxygen >/dev/null || echo "doxygen the names on the site"
      command -v mkdocs >/dev/null || echo "mkdocs-material the site of the documentation"
      shardwise_has_header hdf5/openmpi/H5version.h || echo "libhdf5-openmpi-dev HDF5 with Open MPI"
      shardwise_has_fuzzer || echo "libclang-rt-dev libFuzzer and clang's sanitizers"
    fi
  fi
}

shardwise_setup() {
  [[ ${SHARDWISE_SKIP_SETUP:-} == 1 ]] && return 0
  local missing packages=() as_root=() line
  missing=$(shardwise_missing "${1:-}")
  [[ -z $missing ]] && return 0
  while IFS= read -r line; do packages+=("${line%% *}"); done <<<"$missing"

  if command -v apt-get >/dev/null; then
    if [[ $(id -u) != 0 ]]; then
      if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
      else
        echo "Missing on this machine; please install (as root):" >&2
        echo "  apt-get install ${packages[*]}" >&2
        return 1
      fi
    fi
    if [[ -t 0 && -t 1 ]]; then
      local answer
      read -rp "Missing on this machine: ${packages[*]}. Install them with apt-get, as root? [y/N] " answer
      [[ $answer == [yY]* ]] || return 1
    fi
    echo "Installing what is missing: ${packages[*]}"
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)
    local install=("${apt[@]}" install -y --no-install-recommends "${packages[@]}")
    # The lists of packages may be absent or out of date: then fetch them, and try again.
    if ! "${install[@]}" >/dev/null 2>&1 </dev/null; then
      "${apt[@]}" update </dev/null || return 1
      "${install[@]}" </dev/null >/dev/null || {
        echo "apt-get could not install: ${packages[*]}" >&2
        return 1
      }
    fi
    missing=$(shardwise_missing "${1:-}")
    [[ -z $missing ]] && return 0
    echo "Installed, but still not found:" >&2
  else
    echo "Missing on this machine (Debian's name, and what it is); please install:" >&2
  fi
  echo "  ${missing//$'\n'/$'\n'  }" >&2
  echo "If it is there, in a place that only CMake knows, set SHARDWISE_SKIP_SETUP=1." >&2
  return 1
}

# Configures build/.
shardwise_configure() {
  local generator=() cache="$shardwise_build/CMakeCache.txt"
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$shardwise_root" "$cache"; then
    echo "build/ was made for another folder; starting afresh"
    rm -rf -- "$shardwise_build"
  fi
  if [[ ! -f $cache ]]; then
    generator=(-DCMAKE_BUILD_TYPE=Release)
    if command -v ninja >/dev/null; then generator+=(-G Ninja); fi
  fi
  local options=()
  read -ra options <<<"-DSHARDWISE_HUGE_PAGES=ON ${SHARDWISE_CMAKE_OPTIONS:-}"
  cmake -S "$shardwise_root" -B "$shardwise_build" "${generator[@]}" "${options[@]}"
}

# Configures build/ and builds the targets named.
shardwise_build() {
  local target targets=()
  shardwise_configure || return
  for target in "$@"; do targets+=(--target "$target"); done
  cmake --build "$shardwise_build" --parallel "$(shardwise_cores)" "${targets[@]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  shardwise_setup full
  echo "Everything that Shardwise needs is here."
fi
