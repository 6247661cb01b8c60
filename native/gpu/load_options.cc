#include "gpu/load_options.h"

#include <charconv>
#include <cstring>

namespace hearth {
namespace {

Result<std::uint64_t> number(const std::string& option, const char* value, std::uint64_t most) {
  std::uint64_t parsed = 0;
  const char* const end = value + std::strlen(value);
  const auto [rest, error] = std::from_chars(value, end, parsed);
  if (error != std::errc() || rest != end || parsed == 0 || parsed > most) {
    return Error{ErrorCode::kInvalidArgument,
                 option + " takes a whole number from 1 to " + std::to_string(most)};
  }
  return parsed;
}

Result<DeviceFiles::Choice> choiceOf(const std::string& name) {
  if (name == "measured") return DeviceFiles::Choice::kMeasured;
  if (name == "direct") return DeviceFiles::Choice::kDirect;
  if (name == "bounced") return DeviceFiles::Choice::kBounced;
  return Error{ErrorCode::kInvalidArgument, "--path takes measured, direct or bounced"};
}

// True when `option` is one without a value, which is set then.
bool setFlag(const std::string& option, LoadOptions& options) {
  if (option == "--verify") {
    options.verify = true;
  } else if (option == "--json") {
    options.json = true;
  } else if (option == "--store") {
    options.mode = LoadOptions::Mode::kStore;
  } else if (option == "--memcpy") {
    options.mode = LoadOptions::Mode::kMemcpy;
  } else if (option == "--check") {
    options.mode = LoadOptions::Mode::kCheck;
  } else if (option == "--page-cache") {
    options.files.throughPageCache = true;
  } else {
    return false;
  }
  return true;
}

Status setNumber(const std::string& option, const char* value, LoadOptions& options) {
  constexpr std::uint64_t kMaxKib = 256UL << 10;
  const std::uint64_t most = option == "--slice-kib" ? kMaxKib
                             : option == "--lanes"   ? 64
                             : option == "--repeat"  ? 1000
                                                     : 86400;
  const Result<std::uint64_t> parsed = number(option, value, most);
  if (!parsed.ok()) return parsed.error();
  if (option == "--lanes") {
    options.files.lanes = static_cast<unsigned>(*parsed);
  } else if (option == "--slice-kib") {
    options.files.sliceBytes = *parsed << 10;
  } else if (option == "--repeat") {
    options.repeat = static_cast<unsigned>(*parsed);
  } else if (option == "--stall") {
    options.files.stallTimeout = std::chrono::seconds(*parsed);
  } else {
    return Error{ErrorCode::kInvalidArgument, "unknown option " + option};
  }
  return {};
}

Status setValue(const std::string& option, const char* value, LoadOptions& options) {
  if (option == "--device") {
    options.device = value;
    return {};
  }
  if (option == "--path") {
    const Result<DeviceFiles::Choice> choice = choiceOf(value);
    if (!choice.ok()) return choice.error();
    options.files.choice = *choice;
    return {};
  }
  if (option == "--trial") {
    options.mode = LoadOptions::Mode::kTrial;
    options.peerToPeer = std::string_view(value) == "p2pdma";
    return {};
  }
  return setNumber(option, value, options);
}

}  // namespace

const char* const kLoadUsage =
    "usage: hearth-load [--device cuda:0|cpu] [--path measured|direct|bounced] [--lanes N]\n"
    "                   [--slice-kib N] [--repeat N] [--stall SECONDS] [--page-cache] [--verify]\n"
    "                   [--json] FILE...\n"
    "       hearth-load --store ... FILE...   random bytes of the device into existing files\n"
    "       hearth-load --memcpy [--device cuda:0] [--lanes N] [--slice-kib N]\n"
    "       hearth-load --check [--device cuda:0] FILE   prints one line a check\n"
    "       hearth-load --trial nvidia-fs|p2pdma\n";

Result<LoadOptions> parseLoadOptions(std::span<const char* const> words) {
  LoadOptions options;
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string word = words[index];
    if (!word.starts_with("--")) {
      options.paths.push_back(word);
      continue;
    }
    if (setFlag(word, options)) continue;
    if (index + 1 == words.size()) {
      return Error{ErrorCode::kInvalidArgument, word + " is unknown or lacks its value"};
    }
    if (const Status set = setValue(word, words[++index], options); !set.ok()) return set.error();
  }
  const bool wantsFiles =
      options.mode != LoadOptions::Mode::kMemcpy && options.mode != LoadOptions::Mode::kTrial;
  if (wantsFiles && options.paths.empty()) {
    return Error{ErrorCode::kInvalidArgument, "name one file or more"};
  }
  return options;
}

}  // namespace hearth
