#include "origin/refusal_words.h"

#include <algorithm>
#include <cctype>

namespace hearth {
namespace {

constexpr std::size_t kLongestWords = 200;
constexpr std::size_t kSecretLike = 28;
constexpr std::size_t kShortestSecret = 8;

// Between <name> and the next '<'.
std::string_view element(std::string_view document, const std::string& name) {
  const std::string open = "<" + name + ">";
  const std::size_t begin = document.find(open);
  if (begin == document.npos) return {};
  const std::string_view rest = document.substr(begin + open.size());
  return rest.substr(0, std::min(rest.find('<'), rest.size()));
}

std::string withoutTags(std::string_view text) {
  std::string plain;
  bool inTag = false;
  for (const char c : text) {
    if (c == '<') inTag = true;
    if (!inTag) plain += c;
    if (c == '>') inTag = false;
  }
  return plain;
}

bool isOfSecrets(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("+/_~=-").find(c) != std::string_view::npos;
}

// One word, as it may be shown.
std::string shown(std::string_view word) {
  std::string text(word.substr(0, word.find_first_of("?&")));
  std::size_t run = 0;
  for (const char c : text) {
    run = isOfSecrets(c) ? run + 1 : 0;
    if (run >= kSecretLike) return "...";
  }
  return text.size() == word.size() ? text : text + "...";
}

}  // namespace

std::string errorCodeOf(std::string_view document) {
  const std::string_view code = element(document, "Code").substr(0, 64);
  const bool plain = std::ranges::all_of(
      code, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
  return plain ? std::string(code) : std::string();
}

std::string refusalWords(std::string_view body) {
  const std::string code = errorCodeOf(body);
  std::string found;
  if (!code.empty()) {
    const std::string_view message = element(body, "Message");
    found = message.empty() ? code : code + ": " + std::string(message);
  } else if (const std::string_view title = element(body, "title"); !title.empty()) {
    found = title;
  } else if (!body.starts_with("<?xml")) {
    found = withoutTags(body);
  }
  std::string words, word;
  for (const char c : found + " ") {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isgraph(byte) != 0) word += c;
    if (std::isspace(byte) == 0 || word.empty()) continue;
    words += (words.empty() ? "" : " ") + shown(word);
    word.clear();
  }
  if (words.size() > kLongestWords) words = words.substr(0, kLongestWords - 3) + "...";
  return words;
}

std::string withoutHeaderValues(std::string document,
                                const std::vector<std::pair<std::string, std::string>>& headers) {
  for (const auto& [name, value] : headers) {
    for (std::size_t begin = 0; begin < value.size();) {
      const std::size_t end = std::min(value.find(' ', begin), value.size());
      const std::string word = value.substr(begin, end - begin);
      begin = end + 1;
      if (word.size() < kShortestSecret) continue;
      for (std::size_t at = 0; (at = document.find(word, at)) != document.npos;)
        document.replace(at, word.size(), "...");
    }
  }
  return document;
}

}  // namespace hearth
