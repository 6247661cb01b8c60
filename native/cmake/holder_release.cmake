# HEARTH_HOLDER_RELEASE: the version of package.json, "+" and 12 digits of the SHA-256 of all that hearth-holder is made
# of, as 0.1.0+2b6f0c1a9e34. The program says it, and the engine compares it with what a holder says: two releases
# whose holder is the same program say the same, and two builds of one version that differ in it do not.
block(PROPAGATE HEARTH_HOLDER_RELEASE)
  file(READ ${CMAKE_SOURCE_DIR}/../package.json package)
  string(JSON version GET "${package}" version)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
    ${CMAKE_SOURCE_DIR}/holder/*.cc ${CMAKE_SOURCE_DIR}/holder/*.h)
  list(FILTER sources EXCLUDE REGEX "(_test\\.cc|_fuzz\\.cc|/testing/.*)$")
  list(APPEND sources base/byte_codec.h base/generated/error_code.h base/owned_fd.h base/result.cc base/result.h
    memory/aligned_mapping.cc memory/aligned_mapping.h memory/memory_folder.cc memory/memory_folder.h memory/memory_touch.cc memory/memory_touch.h)
  list(SORT sources)
  set(digests)
  foreach(source ${sources})
    file(SHA256 ${CMAKE_SOURCE_DIR}/${source} digest)
    string(APPEND digests "${source} ${digest}\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${source})
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/../package.json)
  string(SHA256 digest "${digests}")
  string(SUBSTRING ${digest} 0 12 digest)
  set(HEARTH_HOLDER_RELEASE "${version}+${digest}")
endblock()
