# Finds libtorch, as LibTorch::LibTorch: in LIBTORCH_ROOT (a variable, or of the environment), a libtorch archive, unpacked;
# or the Python package torch of POSENC_PYTHON. Unlike libtorch's own TorchConfig.cmake it needs no CUDA toolkit.
set(LibTorch_hints ${LIBTORCH_ROOT} $ENV{LIBTORCH_ROOT})
if(NOT LibTorch_hints)
  set(POSENC_PYTHON python3 CACHE STRING "The Python whose packages are looked into")
  execute_process(
    COMMAND ${POSENC_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE LibTorch_hints OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(LibTorch_INCLUDE_DIR torch/script.h PATHS ${LibTorch_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
foreach(name torch torch_cpu c10 torch_cuda c10_cuda)
  find_library(LibTorch_${name} ${name} PATHS ${LibTorch_hints} PATH_SUFFIXES lib NO_DEFAULT_PATH)
endforeach()

if(LibTorch_FIND_REQUIRED AND NOT (LibTorch_INCLUDE_DIR AND LibTorch_torch AND LibTorch_torch_cpu AND LibTorch_c10))
  message(FATAL_ERROR "libtorch is not found: pip install torch, or unpack a libtorch archive and set LIBTORCH_ROOT to it")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_INCLUDE_DIR LibTorch_torch LibTorch_torch_cpu LibTorch_c10)

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  find_package(Threads REQUIRED)
  set(LibTorch_includes ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
  set(LibTorch_libraries ${LibTorch_torch} ${LibTorch_torch_cpu} ${LibTorch_c10} Threads::Threads)
  if(LibTorch_torch_cuda)
    # Nothing refers to it by name: it registers itself when it is loaded.
    list(APPEND LibTorch_libraries -Wl,--no-as-needed ${LibTorch_torch_cuda} ${LibTorch_c10_cuda} -Wl,--as-needed)
  endif()
  set_target_properties(LibTorch::LibTorch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_includes}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_includes}"
    INTERFACE_LINK_LIBRARIES "${LibTorch_libraries}")
endif()
