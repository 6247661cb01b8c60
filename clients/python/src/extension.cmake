# Builds a target as the extension module `_native` of its package, for the Python that find_package() has found: one binary
# for CPython 3.11 and later by the stable interface, which lacks buffers before, or one for CPython 3.10 alone.
function(hearth_extension target)
  if(Python_VERSION VERSION_LESS 3.11)
    # Not the interpreter's own, which may be of another processor.
    set(suffix .cpython-${Python_VERSION_MAJOR}${Python_VERSION_MINOR}-${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.so)
  else()
    set(suffix .abi3.so)
    target_compile_definitions(${target} PRIVATE Py_LIMITED_API=0x030B0000)
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME _native PREFIX "" SUFFIX ${suffix}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD OFF)
  target_include_directories(${target} SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
endfunction()
