# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# An overlay port: `vcpkg install shardwise --overlay-ports=FOLDER`, of this folder.
# checkout:
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
# release:
#| vcpkg_download_distfile(ARCHIVE URLS "@URL@" FILENAME "@ARCHIVE@" SHA512 @SHA512@)
#| vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")
set(VCPKG_BUILD_TYPE release)  # headers only
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
                      OPTIONS -DSHARDWISE_BUILD_TESTS=OFF -DSHARDWISE_BUILD_EXAMPLES=OFF -DSHARDWISE_BUILD_BENCHMARKS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME shardwise CONFIG_PATH share/cmake/shardwise)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
