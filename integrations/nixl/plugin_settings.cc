#include "plugin_settings.h"

#include <charconv>

namespace hearth::nixl {
namespace {

constexpr unsigned kMaxTimeoutMs = 3'600'000;

bool readTimeout(const std::string& text, unsigned& milliseconds) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, milliseconds);
  return error == std::errc() && stopped == end && milliseconds != 0 &&
         milliseconds <= kMaxTimeoutMs;
}

std::string valueOf(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::string() : found->second;
}

}  // namespace

Parameters defaultParameters() {
  return {{"volume", ""},    {"fingerprint", ""}, {"salt", ""},
          {"addresses", ""}, {"cluster", ""},     {"timeout_ms", "10000"}};
}

bool readSettings(const Parameters& parameters, PluginSettings& settings, std::string& problem) {
  settings.volume = valueOf(parameters, "volume");
  settings.fingerprint = valueOf(parameters, "fingerprint");
  settings.salt = valueOf(parameters, "salt");
  settings.addresses = valueOf(parameters, "addresses");
  settings.cluster = valueOf(parameters, "cluster");
  if (settings.volume.empty()) {
    problem = "the parameter volume is missing: the name of a scratch volume";
  } else if (settings.fingerprint.empty()) {
    problem =
        "the parameter fingerprint is missing: a text that names the weights, the layout and the "
        "precision of the blocks, so that no other model reads them";
  } else if (const std::string timeout = valueOf(parameters, "timeout_ms");
             !timeout.empty() && !readTimeout(timeout, settings.timeoutMs)) {
    problem = "the parameter timeout_ms is not a number of milliseconds from 1 to 3600000";
  }
  return problem.empty();
}

}  // namespace hearth::nixl
