// Why a server refuses, in its own words, for messages. Private to this room. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

// The identifier between <Code> and </Code> of an S3 error document (letters and digits only);
// empty for none.
[[nodiscard]] std::string errorCodeOf(std::string_view document);

// The code and message of an S3 error, the title of a page, or the beginning of plain text, at most
// 200 bytes of printable ASCII; empty for none. The function leaves out secrets that the server may
// repeat (a query, a signature, a key): the text of runs of 28 letters and digits or more, and
// all behind '?' or '&'.
[[nodiscard]] std::string refusalWords(std::string_view body);

// The document without the words of these header values: a server may repeat the token that the
// request carried. Words of fewer than 8 characters ("Bearer") stay.
[[nodiscard]] std::string withoutHeaderValues(
    std::string document, const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace hearth
