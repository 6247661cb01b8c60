// Which names a manifest may contain. Pure, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth {

// Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above
// U+10FFFF.
[[nodiscard]] bool isUtf8(std::string_view text);

// Why `name` cannot be one part of a path; nothing when it can.
[[nodiscard]] std::optional<std::string> unusableName(std::string_view name);

// Why `path` ("a/b/c", relative) cannot be used; nothing when it can.
[[nodiscard]] std::optional<std::string> unusablePath(std::string_view path);

// Why `target` cannot be a symbolic link's target; nothing when it can.
[[nodiscard]] std::optional<std::string> unusableTarget(std::string_view target);

// Why `validator` cannot be kept: it becomes part of a request header, so no control characters.
[[nodiscard]] std::optional<std::string> unusableValidator(std::string_view validator);

// For messages: control characters, backslashes and bytes that are not UTF-8 as \xNN; cut after 200
// bytes.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace hearth
