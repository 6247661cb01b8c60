# Toolchain for another processor's Debian: cmake --toolchain cmake/cross.cmake -DHEARTH_PROCESSOR=aarch64 ...
# Clang compiles for it by itself; headers and libraries are Debian's, of that architecture: those that are installed
# (scripts/image/compilers.sh), or those in the folder HEARTH_SYSROOT (scripts/sysroot.sh). Both variables may come from the
# environment.
foreach(variable HEARTH_PROCESSOR HEARTH_SYSROOT)
  if(NOT ${variable} AND DEFINED ENV{${variable}})
    set(${variable} $ENV{${variable}})
  endif()
endforeach()
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${HEARTH_PROCESSOR})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEARTH_PROCESSOR HEARTH_SYSROOT)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET ${HEARTH_PROCESSOR}-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET ${HEARTH_PROCESSOR}-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR}
  ${HEARTH_SYSROOT}/usr/lib/${HEARTH_PROCESSOR}-linux-gnu/pkgconfig:${HEARTH_SYSROOT}/usr/share/pkgconfig)
if(HEARTH_SYSROOT)
  set(CMAKE_SYSROOT ${HEARTH_SYSROOT})
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HEARTH_SYSROOT})
  foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=lld-19)
  endforeach()
  # With -isystem the folder would come before that of the C++ library, which includes headers behind its own.
  set(CMAKE_NO_SYSTEM_FROM_IMPORTED ON)
  set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
  set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
endif()
# Nothing is run while it is built; several files at once take a third of the time.
set(CMAKE_UNITY_BUILD ON)
