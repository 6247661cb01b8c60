// Text as a JSON string. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

// With its quotation marks. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string jsonString(std::string_view text);

}  // namespace hearth
