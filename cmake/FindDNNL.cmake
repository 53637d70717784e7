# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Finds oneDNN as the target DNNL::dnnl: by its own package, else by dnnl.h and libdnnl. Debian's package requires OpenCL,
# which the header and the library do not, and stops CMake if it is missing: so that package is read only beside OpenCL.

find_library(DNNL_LIBRARY dnnl)
if(NOT DNNL_DIR AND DNNL_LIBRARY)
  get_filename_component(DNNL_folder "${DNNL_LIBRARY}" DIRECTORY)
  set(DNNL_config "${DNNL_folder}/cmake/dnnl/dnnl-config.cmake")
  set(DNNL_with_opencl "")
  if(EXISTS "${DNNL_config}")
    file(STRINGS "${DNNL_config}" DNNL_with_opencl REGEX "^set\\(DNNL_GPU_RUNTIME \"OCL\"")
  endif()
  if(DNNL_with_opencl)
    find_package(OpenCL QUIET)
  endif()
endif()
if(DNNL_DIR OR NOT DNNL_with_opencl OR OpenCL_FOUND)
  find_package(DNNL CONFIG QUIET)
endif()
include(FindPackageHandleStandardArgs)
if(TARGET DNNL::dnnl)
  find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_DIR)
else()
  find_path(DNNL_INCLUDE_DIR dnnl.h)
  mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
  find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR)
  if(DNNL_FOUND)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
                                                INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
  endif()
endif()
