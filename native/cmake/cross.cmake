# Toolchain for another processor's Debian: cmake --toolchain cmake/cross.cmake -DHEARTH_PROCESSOR=aarch64 ...
# Clang compiles for it by itself; headers and libraries are Debian's, of that architecture (scripts/image/compilers.sh).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${HEARTH_PROCESSOR})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEARTH_PROCESSOR)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET ${HEARTH_PROCESSOR}-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${HEARTH_PROCESSOR}-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# Nothing is run while it is built; several files at once take a third of the time.
set(CMAKE_UNITY_BUILD ON)
