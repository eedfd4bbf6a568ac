# Finds ONNX Runtime's C++ headers and library, as ONNXRuntime::ONNXRuntime:
#   1. in ONNXRUNTIME_ROOT (a variable, or of the environment): a release archive, unpacked, or a folder of headers;
#   2. where the system has them: libonnxruntime-dev, Homebrew, CMAKE_PREFIX_PATH;
#   3. headers from there, and the library inside the Python package onnxruntime of POSENC_PYTHON.
# Headers newer than the library are refused: the API they need would not be there.
set(hints ${ONNXRUNTIME_ROOT} $ENV{ONNXRUNTIME_ROOT})
set(folders include onnxruntime include/onnxruntime)
find_path(ONNXRuntime_INCLUDE_DIR onnxruntime_cxx_api.h PATHS ${hints} PATH_SUFFIXES ${folders} NO_DEFAULT_PATH)
find_path(ONNXRuntime_INCLUDE_DIR onnxruntime_cxx_api.h PATH_SUFFIXES ${folders})
find_library(ONNXRuntime_LIBRARY onnxruntime PATHS ${hints} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(ONNXRuntime_LIBRARY onnxruntime)

if(ONNXRuntime_INCLUDE_DIR AND NOT ONNXRuntime_LIBRARY)
  set(POSENC_PYTHON python3 CACHE STRING "The Python whose packages are looked into")
  execute_process(
    COMMAND ${POSENC_PYTHON} -c "import importlib.util as u; print(u.find_spec('onnxruntime').submodule_search_locations[0])"
    OUTPUT_VARIABLE package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(GLOB candidates ${package}/capi/libonnxruntime.so.* ${package}/capi/libonnxruntime.*.dylib)
  if(candidates)
    # A linker wants libonnxruntime.so, a loader the SONAME libonnxruntime.so.1, and ONNX Runtime its providers beside it.
    list(GET candidates 0 library)
    set(links ${CMAKE_BINARY_DIR}/onnxruntime)
    file(MAKE_DIRECTORY ${links})
    file(GLOB beside ${package}/capi/libonnxruntime*)
    foreach(file ${beside})
      get_filename_component(name ${file} NAME)
      file(CREATE_LINK ${file} ${links}/${name} SYMBOLIC)
    endforeach()
    set(suffix ${CMAKE_SHARED_LIBRARY_SUFFIX})
    foreach(name libonnxruntime${suffix} libonnxruntime.so.1)
      file(CREATE_LINK ${library} ${links}/${name} SYMBOLIC)
    endforeach()
    set(ONNXRuntime_LIBRARY ${links}/libonnxruntime${suffix} CACHE FILEPATH "ONNX Runtime's library" FORCE)
  endif()
endif()

if(ONNXRuntime_INCLUDE_DIR AND EXISTS ${ONNXRuntime_INCLUDE_DIR}/onnxruntime_c_api.h)
  file(STRINGS ${ONNXRuntime_INCLUDE_DIR}/onnxruntime_c_api.h line REGEX "define ORT_API_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" ONNXRuntime_API "${line}")
endif()
if(ONNXRuntime_LIBRARY)
  get_filename_component(library ${ONNXRuntime_LIBRARY} REALPATH)
  if(library MATCHES "[.]1[.]([0-9]+)[.]?[0-9]*([.]dylib)?$")
    set(minor ${CMAKE_MATCH_1})
    if(ONNXRuntime_API GREATER minor)
      message(FATAL_ERROR "ONNX Runtime's headers in ${ONNXRuntime_INCLUDE_DIR} are of 1.${ONNXRuntime_API}, newer than the library ${library}: give older headers or a newer library in ONNXRUNTIME_ROOT")
    endif()
  endif()
endif()

if(ONNXRuntime_FIND_REQUIRED AND NOT (ONNXRuntime_INCLUDE_DIR AND ONNXRuntime_LIBRARY))
  message(FATAL_ERROR "ONNX Runtime's C++ headers, or its library, are not found: install libonnxruntime-dev, or unpack a release archive and set ONNXRUNTIME_ROOT to it")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNXRuntime REQUIRED_VARS ONNXRuntime_INCLUDE_DIR ONNXRuntime_LIBRARY)

if(ONNXRuntime_FOUND AND NOT TARGET ONNXRuntime::ONNXRuntime)
  add_library(ONNXRuntime::ONNXRuntime SHARED IMPORTED GLOBAL)
  set_target_properties(ONNXRuntime::ONNXRuntime PROPERTIES
    IMPORTED_LOCATION ${ONNXRuntime_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONNXRuntime_INCLUDE_DIR}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ONNXRuntime_INCLUDE_DIR})
endif()
