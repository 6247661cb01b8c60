// hearth-rdma-bench: measures RDMA between two processes, of one machine or of two. Neither an
// agent nor a cluster is needed.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "rdma_bench/measurement.h"
#include "verbs/loaded_verbs.h"

namespace hearth::rdma_bench {
namespace {

constexpr int kUsageExit = 2;
constexpr const char* kUsage =
    "usage: hearth-rdma-bench --listen HOST:PORT [--once] [PORT OPTION]...\n"
    "       hearth-rdma-bench --connect HOST:PORT [--sizes BYTES,...] [--depth N]\n"
    "                         [--milliseconds N] [PORT OPTION]...\n"
    "port options: --device NAME[/PORT], --gid-index N, --spin\n"
    "The client prints one line of JSON. The server prints the address on which it listens.\n";

struct Options {
  std::string listen, connect;
  bool once = false;
  MeasuringOptions measuring;
};

bool number(const char* text, unsigned long most, unsigned long& value) {
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc() && rest == end && value <= most;
}

bool sizes(const std::string& text, std::vector<std::uint32_t>& into) {
  into.clear();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    unsigned long bytes = 0;
    if (!number(text.substr(at, end - at).c_str(), kMostBytes, bytes) || bytes == 0) return false;
    into.push_back(static_cast<std::uint32_t>(bytes));
    at = end + 1;
  }
  return true;
}

bool take(const std::string& option, const char* value, Options& options) {
  unsigned long whole = 0;
  MeasuringOptions& measuring = options.measuring;
  if (option == "--listen") return !(options.listen = value).empty();
  if (option == "--connect") return !(options.connect = value).empty();
  if (option == "--device") return !(measuring.port.device = value).empty();
  if (option == "--sizes") return sizes(value, measuring.sizes);
  if (option == "--gid-index" && number(value, 255, whole)) {
    measuring.port.gidIndex = static_cast<int>(whole);
  } else if (option == "--depth" && number(value, 64, whole) && whole > 0) {
    measuring.depth = static_cast<std::uint32_t>(whole);
  } else if (option == "--milliseconds" && number(value, 3'600'000, whole) && whole > 0) {
    measuring.perSize = std::chrono::milliseconds(whole);
  } else {
    return false;
  }
  return true;
}

bool parse(int count, char** words, Options& options) {
  for (int at = 1; at < count; ++at) {
    const std::string option = words[at];
    if (option == "--once") {
      options.once = true;
    } else if (option == "--spin") {
      options.measuring.spins = true;
    } else {
      if (++at == count || !take(option, words[at], options)) return false;
    }
  }
  return options.listen.empty() != options.connect.empty();
}

int fail(const Error& error) {
  std::fprintf(stderr, "hearth-rdma-bench: %s: %s\n", std::string(errorName(error.code)).c_str(),
               error.message.c_str());
  return 1;
}

int listen(const std::shared_ptr<Verbs>& verbs, const Options& options) {
  // Said here and now, not to the first client.
  const auto usable = BenchPort::open(verbs, options.measuring.port, [](const auto&) {});
  if (!usable.ok()) return fail(usable.error());
  auto listener = Listener::bind(options.listen);
  if (!listener.ok()) return fail(listener.error());
  std::printf("%s\n", (*listener)->address().c_str());
  std::fflush(stdout);
  for (;;) {
    auto control = (*listener)->accept();
    if (!control.ok()) return fail(control.error());
    const Status served = serve(verbs, **control, options.measuring.port, options.measuring.spins);
    int code = 0;
    if (!served.ok()) code = fail(served.error());
    if (options.once) return code;
  }
}

int run(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    std::fputs(kUsage, stderr);
    return kUsageExit;
  }
  auto verbs = loadVerbs();
  if (!verbs.ok()) return fail(verbs.error());
  if (!options.listen.empty()) return listen(*verbs, options);
  auto control = Control::connect(options.connect);
  if (!control.ok()) return fail(control.error());
  const Result<Report> report = measure(*verbs, **control, options.measuring);
  if (!report.ok()) return fail(report.error());
  std::printf("%s\n", jsonOf(*report).c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hearth::rdma_bench

int main(int count, char** words) { return hearth::rdma_bench::run(count, words); }
