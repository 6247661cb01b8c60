#include "plugin_log.h"

#include <cstdio>
#include <string>
#include <system_error>

namespace hearth::nixl {

void logProblem(std::string_view sentence) {
  std::fprintf(stderr, "NIXL back end HEARTH: %.*s\n", static_cast<int>(sentence.size()),
               sentence.data());
}

void logProblem(std::string_view sentence, int error) {
  const std::string reason = std::generic_category().message(error);
  logProblem(std::string(sentence) + ": " + reason);
}

}  // namespace hearth::nixl
