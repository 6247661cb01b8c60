# hearth_fuzzer(NAME [ROOM]): NAME.cc in the calling folder as a libFuzzer program hearth_NAME, linked with
# hearth_ROOM (by default the folder's name). Does nothing unless HEARTH_FUZZ is on, as in the preset fuzz:
#   cmake --preset fuzz
#   cmake --build ../build/fuzz --target hearth_frame_fuzz
#   ../build/fuzz/wire/hearth_frame_fuzz -max_total_time=60
option(HEARTH_FUZZ "Build the fuzzers" OFF)

if(HEARTH_FUZZ)
  # The rooms are instrumented as well; only the fuzzers link libFuzzer's main.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()

function(hearth_fuzzer name)
  if(NOT HEARTH_FUZZ)
    return()
  endif()
  set(room ${ARGV1})
  if(NOT room)
    get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  endif()
  add_executable(hearth_${name} ${name}.cc)
  target_link_libraries(hearth_${name} hearth_${room})
  target_link_options(hearth_${name} PRIVATE -fsanitize=fuzzer)
endfunction()
