# Finds ONNX Runtime's headers and library, as ONNXRuntime::ONNXRuntime. ONNX Runtime's own CMake files are not used: those
# of release archives name folders that are not there (microsoft/onnxruntime issues 25242 and 26186).
#   1. ONNXRUNTIME_ROOT (a variable, or of the environment): a release archive or a NuGet package, unpacked; an Android
#      archive (.aar), unpacked or not; an installed prefix, as vcpkg and conan make them; a folder of headers alone;
#   2. where the system has them: libonnxruntime-dev, Homebrew, CMAKE_PREFIX_PATH;
#   3. headers from there, and the library inside the Python package onnxruntime of POSENC_PYTHON.
# Headers newer than the library are refused: the API they need would not be there.
set(ONNXRuntime_hints ${ONNXRUNTIME_ROOT} $ENV{ONNXRUNTIME_ROOT})
foreach(hint ${ONNXRuntime_hints})
  if(hint MATCHES "[.]aar$" AND NOT IS_DIRECTORY ${hint})
    file(ARCHIVE_EXTRACT INPUT ${hint} DESTINATION ${CMAKE_BINARY_DIR}/onnxruntime-android)
    list(APPEND ONNXRuntime_hints ${CMAKE_BINARY_DIR}/onnxruntime-android)
  endif()
endforeach()
set(ONNXRuntime_abi ${ANDROID_ABI} ${CMAKE_ANDROID_ARCH_ABI})
set(ONNXRuntime_header_folders include onnxruntime include/onnxruntime include/onnxruntime/core/session headers build/native/include)
set(ONNXRuntime_library_folders lib lib64 bin runtimes/linux-x64/native runtimes/linux-arm64/native runtimes/win-x64/native)
foreach(one ${ONNXRuntime_abi})
  list(INSERT ONNXRuntime_library_folders 0 jni/${one})
endforeach()
find_path(ONNXRuntime_INCLUDE_DIR onnxruntime_c_api.h PATHS ${ONNXRuntime_hints} PATH_SUFFIXES ${ONNXRuntime_header_folders}
  NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
find_path(ONNXRuntime_INCLUDE_DIR onnxruntime_c_api.h PATH_SUFFIXES ${ONNXRuntime_header_folders})
find_library(ONNXRuntime_LIBRARY onnxruntime PATHS ${ONNXRuntime_hints} PATH_SUFFIXES ${ONNXRuntime_library_folders}
  NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
find_library(ONNXRuntime_LIBRARY onnxruntime)

if(NOT ONNXRuntime_LIBRARY AND NOT CMAKE_CROSSCOMPILING)
  set(POSENC_PYTHON python3 CACHE STRING "The Python whose packages are looked into")
  execute_process(
    COMMAND ${POSENC_PYTHON} -c "import importlib.util as u; print(u.find_spec('onnxruntime').submodule_search_locations[0])"
    OUTPUT_VARIABLE ONNXRuntime_package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(GLOB ONNXRuntime_candidates ${ONNXRuntime_package}/capi/libonnxruntime.so.* ${ONNXRuntime_package}/capi/libonnxruntime.*.dylib)
  if(ONNXRuntime_package AND ONNXRuntime_candidates)
    # A linker wants libonnxruntime.so, a loader the SONAME libonnxruntime.so.1, and ONNX Runtime its providers beside it.
    list(GET ONNXRuntime_candidates 0 ONNXRuntime_file)
    set(ONNXRuntime_links ${CMAKE_BINARY_DIR}/onnxruntime)
    file(MAKE_DIRECTORY ${ONNXRuntime_links})
    file(GLOB ONNXRuntime_beside ${ONNXRuntime_package}/capi/libonnxruntime*)
    foreach(file ${ONNXRuntime_beside})
      get_filename_component(name ${file} NAME)
      file(CREATE_LINK ${file} ${ONNXRuntime_links}/${name} SYMBOLIC)
    endforeach()
    set(ONNXRuntime_suffix ${CMAKE_SHARED_LIBRARY_SUFFIX})
    foreach(name libonnxruntime${ONNXRuntime_suffix} libonnxruntime.so.1)
      file(CREATE_LINK ${ONNXRuntime_file} ${ONNXRuntime_links}/${name} SYMBOLIC)
    endforeach()
    set(ONNXRuntime_LIBRARY ${ONNXRuntime_links}/libonnxruntime${ONNXRuntime_suffix} CACHE FILEPATH "ONNX Runtime's library" FORCE)
  endif()
endif()

if(ONNXRuntime_INCLUDE_DIR AND EXISTS ${ONNXRuntime_INCLUDE_DIR}/onnxruntime_c_api.h)
  file(STRINGS ${ONNXRuntime_INCLUDE_DIR}/onnxruntime_c_api.h line REGEX "define ORT_API_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" ONNXRuntime_API "${line}")
endif()
if(ONNXRuntime_LIBRARY)
  get_filename_component(ONNXRuntime_file ${ONNXRuntime_LIBRARY} REALPATH)
  if(ONNXRuntime_file MATCHES "[.]1[.]([0-9]+)[.]?[0-9]*([.]dylib)?$")
    set(ONNXRuntime_minor ${CMAKE_MATCH_1})
    if(ONNXRuntime_API GREATER ONNXRuntime_minor)
      message(FATAL_ERROR "ONNX Runtime's headers in ${ONNXRuntime_INCLUDE_DIR} are of 1.${ONNXRuntime_API}, newer than the library ${ONNXRuntime_file}: give older headers or a newer library in ONNXRUNTIME_ROOT")
    endif()
  endif()
endif()

if(ONNXRuntime_FIND_REQUIRED AND ONNXRuntime_LIBRARY AND NOT ONNXRuntime_INCLUDE_DIR)
  message(FATAL_ERROR "ONNX Runtime's headers are not found. The library is there (${ONNXRuntime_file}), and headers alone suffice beside it, if they are not newer: take the folder include of a release archive (https://github.com/microsoft/onnxruntime/releases) or the package libonnxruntime-dev, and set ONNXRUNTIME_ROOT to the folder that holds onnxruntime_c_api.h")
endif()
if(ONNXRuntime_FIND_REQUIRED AND NOT ONNXRuntime_LIBRARY)
  message(FATAL_ERROR "ONNX Runtime's library is not found: pip install onnxruntime (headers alone suffice beside it), install libonnxruntime-dev, or unpack a release archive (https://github.com/microsoft/onnxruntime/releases) and set ONNXRUNTIME_ROOT to it")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNXRuntime REQUIRED_VARS ONNXRuntime_INCLUDE_DIR ONNXRuntime_LIBRARY)

if(ONNXRuntime_FOUND AND NOT TARGET ONNXRuntime::ONNXRuntime)
  add_library(ONNXRuntime::ONNXRuntime UNKNOWN IMPORTED GLOBAL)
  set_target_properties(ONNXRuntime::ONNXRuntime PROPERTIES
    IMPORTED_LOCATION ${ONNXRuntime_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONNXRuntime_INCLUDE_DIR}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ONNXRuntime_INCLUDE_DIR})
endif()
