// hearth-load: moves local files into the memory of a GPU or of the host, and prints how fast, by
// which path, and why not by a better one. Also the program that tries cuFile's driver before a
// process that must not hang opens it.
#include <cstdio>

#include "base/json_string.h"
#include "gpu/gpu_runtime.h"
#include "gpu/load_check.h"
#include "gpu/load_run.h"

namespace hearth {
namespace {

constexpr int kUsageExit = 2;

int fail(const Error& error) {
  std::fprintf(stderr, "hearth-load: %s: %s\n", std::string(errorName(error.code)).c_str(),
               error.message.c_str());
  return 1;
}

// The last line says how it ended: the caller shows it (cufile_trial.h).
int tryCufile(bool peerToPeer) {
  const auto say = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  say("opening the GPU");
  const Result<CudaFunctions> cuda = GpuRuntime::system().cuda();
  if (!cuda.ok()) return say(cuda.error().message), 1;
  if (const int started = cuda->init(0); started != kCudaSuccess) {
    return say(cudaError(*cuda, "cuInit", started).message), 1;
  }
  const Result<std::shared_ptr<CudaPrimaryContext>> context = CudaPrimaryContext::retain(*cuda, 0);
  if (!context.ok()) return say(context.error().message), 1;
  const Result<CufileFunctions> cufile = GpuRuntime::system().cufile();
  if (!cufile.ok()) return say(cufile.error().message), 1;
  say("cuFileDriverOpen");
  const Result<std::shared_ptr<CufileDriver>> driver =
      CufileDriver::open(*cufile, **context, peerToPeer);
  if (!driver.ok()) return say(driver.error().message), 1;
  say((*driver)->opened().description);
  return 0;
}

int load(const LoadOptions& options) {
  const Result<LoadReport> report = runLoad(options);
  if (!report.ok()) return fail(report.error());
  const Transferred& moved = report->moved;
  const double speed = static_cast<double>(moved.bytes()) / report->seconds / 1e9;
  const std::string path(transferPathName(moved.path()));
  if (options.json) {
    std::printf(
        "{\"device\":%s,\"model\":%s,\"bytes\":%llu,\"seconds\":%.6f,\"path\":\"%s\","
        "\"directBytes\":%llu,\"bouncedBytes\":%llu,\"hostBytes\":%llu,\"whyNotDirect\":%s,"
        "\"verified\":%s}\n",
        jsonString(report->device).c_str(), jsonString(report->model).c_str(),
        static_cast<unsigned long long>(moved.bytes()), report->seconds, path.c_str(),
        static_cast<unsigned long long>(moved.directBytes),
        static_cast<unsigned long long>(moved.bouncedBytes),
        static_cast<unsigned long long>(moved.hostBytes), jsonString(moved.whyNotDirect).c_str(),
        report->isVerified ? "true" : "false");
    return 0;
  }
  std::printf("%s (%s): %.3f GB in %.3f s, %.2f GB/s, %s%s\n", report->device.c_str(),
              report->model.c_str(), static_cast<double>(moved.bytes()) / 1e9, report->seconds,
              speed, path.c_str(), report->isVerified ? ", verified" : "");
  if (!moved.whyNotDirect.empty()) {
    std::printf("not direct: %s\n", moved.whyNotDirect.c_str());
  }
  return 0;
}

int memcpy(const LoadOptions& options) {
  const Result<MemcpyReport> report = runMemcpy(options);
  if (!report.ok()) return fail(report.error());
  std::printf("%s (%s): pinned memory to the device %.2f GB/s, to the host %.2f GB/s\n",
              report->device.c_str(), report->model.c_str(), report->toDevice / 1e9,
              report->toHost / 1e9);
  return 0;
}

int check(const LoadOptions& options) {
  const Result<std::vector<LoadCheck>> checks = runChecks(options);
  if (!checks.ok()) return fail(checks.error());
  bool isGood = true;
  for (const LoadCheck& each : *checks) {
    const bool isMissing = each.status.code() == ErrorCode::kUnsupported;
    const char* const verdict = each.status.ok() ? "yes" : isMissing ? "unsupported" : "NO";
    const std::string& detail = each.status.ok() ? each.detail : each.status.error().message;
    std::printf("%s: %s%s%s\n", each.name.c_str(), verdict, detail.empty() ? "" : ", ",
                detail.c_str());
    isGood = isGood && (each.status.ok() || isMissing);
  }
  return isGood ? 0 : 1;
}

int run(std::span<const char* const> words) {
  const Result<LoadOptions> options = parseLoadOptions(words);
  if (!options.ok()) {
    std::fprintf(stderr, "hearth-load: %s\n%s", options.error().message.c_str(), kLoadUsage);
    return kUsageExit;
  }
  switch (options->mode) {
    case LoadOptions::Mode::kTrial:
      return tryCufile(options->peerToPeer);
    case LoadOptions::Mode::kCheck:
      return check(*options);
    case LoadOptions::Mode::kMemcpy:
      return memcpy(*options);
    case LoadOptions::Mode::kLoad:
    case LoadOptions::Mode::kStore:
      return load(*options);
  }
  return kUsageExit;
}

}  // namespace
}  // namespace hearth

int main(int count, char** words) {
  return hearth::run(std::span<const char* const>(words + 1, static_cast<std::size_t>(count - 1)));
}
