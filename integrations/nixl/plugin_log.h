// Lines on stderr, where NIXL logs, too.
#pragma once

#include <string_view>

namespace hearth::nixl {

void logProblem(std::string_view sentence);
// With the errno's text.
void logProblem(std::string_view sentence, int error);

}  // namespace hearth::nixl
