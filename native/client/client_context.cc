#include "client/client_context.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/completion_status.h"
#include "client/file_type.h"
#include "memory/guarded_memory.h"
#include "reactor/blocking_call.h"

namespace hearth::gd2fs {
namespace {

constexpr Clock::duration kConnectTimeout = std::chrono::seconds(10);
// Numbers for contexts and memory, which callers see as pointers: none is given twice, so that one
// that has gone is never taken for another. Multiples of 16, as pointers are.
std::uintptr_t nextNumber() {
  static std::atomic<std::uintptr_t> last{0};
  return last += 16;
}

xfer_gd2fs_stat statOf(const ResolvedPath& resolved) {
  xfer_gd2fs_stat into{};
  into.size = resolved.size;
  into.mtime_ns = resolved.modifiedNs;
  into.mode = typeBits(resolved.kind);
  switch (resolved.kind) {
    case ResolvedKind::kFile:
      into.mode |= resolved.executable ? 0555u : 0444u;
      break;
    case ResolvedKind::kFolder:
      into.mode |= 0555u;
      break;
    case ResolvedKind::kSymlink:
      into.mode |= 0777u;
      break;
  }
  return into;
}

}  // namespace

int ClientContext::locate(const char* path, std::string& located) const {
  if (path == nullptr) return -EINVAL;
  const std::string_view given(path, strnlen(path, kMaxClientPathBytes + 1));
  if (!namesItsRoot(given) && given.starts_with('/')) located = options_.root;
  located += given;
  if (located.size() > kMaxClientPathBytes) return -ENAMETOOLONG;
  return checkClientPath(located).ok() ? 0 : -EINVAL;
}

ClientContext::ClientContext(ClientOptions options)
    : options_(std::move(options)), agents_(options_.agents, options_.findAgents) {}

Result<std::shared_ptr<ClientContext>> ClientContext::connect(ClientOptions options) {
  const Result<CapabilityToken> token = options.token();
  if (!token.ok()) return Error{ErrorCode::kUnauthenticated, token.error().message};
  std::shared_ptr<ClientContext> context(new ClientContext(std::move(options)));
  const Status started = context->start();
  if (!started.ok()) return started.error();
  return context;
}

Status ClientContext::start() {
  for (std::size_t index = 0; index < options_.ioThreads; ++index) {
    Result<std::unique_ptr<AgentLink>> link = AgentLink::start(options_, agents_, index);
    if (!link.ok()) return link.error();
    links_.push_back(std::move(*link));
  }
  localFiles_ = std::make_unique<LocalFiles>(options_, links_.front()->reactor());
  const Clock::time_point deadline =
      Clock::now() + std::min<Clock::duration>(kConnectTimeout, options_.timeout);
  const ControlMessage attach{static_cast<std::uint16_t>(ClientMessage::kAttach), {}};
  const Result<ControlMessage> answer =
      runOn(links_.front()->reactor(), links_.front()->ask(attach, deadline, true));
  return answer.ok() ? Status() : Status(answer.error());
}

void ClientContext::close() {
  if (std::exchange(closed_, true)) return;
  agents_.closing = true;
  {
    // No thread is submitting any more: the links may go.
    const std::unique_lock submitting(submitting_);
    completions_->close();
  }
  struct Wrap {
    static Task<bool> run(LocalFiles& files) {
      co_await files.close();
      co_return true;
    }
  };
  if (localFiles_ != nullptr) runOn(links_.front()->reactor(), Wrap::run(*localFiles_));
  // All, before the first thread ends: a request of one has parts on the others.
  for (const std::unique_ptr<AgentLink>& link : links_) link->close();
  // Threads in wait() may still look at the links themselves.
  for (const std::unique_ptr<AgentLink>& link : links_) link->end();
  releaseGpus();
}

void ClientContext::releaseGpus() {
  std::map<std::uintptr_t, std::shared_ptr<IoMemory>> memory;
  std::vector<std::shared_ptr<GpuMemory>> gpus;
  {
    const std::lock_guard lock(mutex_);
    memory.swap(memory_);
    gpus.swap(gpus_);
  }
  if (gpus.empty()) return;
  DriverCalls calls;
  auto drop = [held = std::make_shared<decltype(gpus)>(std::move(gpus)),
               regions = std::make_shared<decltype(memory)>(std::move(memory))]() mutable {
    regions.reset();
    held.reset();
    return Status();
  };
  // Memory that a driver does not give back in time is its own from then on.
  (void)calls.runHere(Clock::now() + options_.timeout, std::move(drop));
}

int ClientContext::wait(std::span<xfer_gd2fs_completion> into, int timeoutMs) {
  AgentLink* const quick = quick_.load();
  LentReactor* const lent = quick != nullptr ? &quick->lent() : nullptr;
  const int taken = completions_->take(into, timeoutMs, lent);
  // Others who wait have counted on us.
  if (lent != nullptr && completions_->waiting() != 0) lent->takeBack();
  return taken;
}

void ClientContext::sendOn(AgentLink& link) {
  link.lent().borrow(Clock::now(), [] { return true; });
  // A thread that waits for completions sleeps already and cannot run what was posted.
  if (completions_->waiting() != 0) link.lent().takeBack();
}

Result<std::uintptr_t> ClientContext::registerMemory(std::uintptr_t address, std::size_t size) {
  Result<std::shared_ptr<Device>> device = gpuAt(address);
  if (!device.ok()) return device.error();
  std::shared_ptr<MemoryRegion> region;
  std::shared_ptr<GpuMemory> gpu;
  if (*device == nullptr) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the program gives addresses of both kinds.
    region = MemoryRegion::host({reinterpret_cast<std::byte*>(address), size});
  } else {
    gpu = gpuMemory(std::move(*device));
    Result<std::shared_ptr<MemoryRegion>> adopted = gpu->device().adopt(address, size, nullptr);
    if (!adopted.ok()) return adopted.error();
    region = std::move(*adopted);
  }
  const std::uintptr_t number = nextNumber();
  auto memory = std::make_shared<IoMemory>(std::move(region), std::move(gpu));
  const std::lock_guard lock(mutex_);
  memory_.emplace(number, std::move(memory));
  return number;
}

std::shared_ptr<GpuMemory> ClientContext::gpuMemory(std::shared_ptr<Device> device) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<GpuMemory>& gpu : gpus_)
    if (gpu->device().name() == device->name()) return gpu;
  return gpus_.emplace_back(std::make_shared<GpuMemory>(std::move(device)));
}

int ClientContext::deregisterMemory(std::uintptr_t memory) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(memory);
  if (found == memory_.end()) return -EINVAL;
  // Requests take their references with the mutex held, so none can begin here.
  if (found->second.use_count() > 1) return -EBUSY;
  memory_.erase(found);
  return 0;
}

int ClientContext::drain(std::uintptr_t memory, int timeoutMs) {
  std::shared_ptr<MemoryUses> uses;
  {
    const std::lock_guard lock(mutex_);
    const auto found = memory_.find(memory);
    if (found == memory_.end()) return -EINVAL;
    uses = found->second->uses;
  }
  const Clock::time_point deadline = timeoutMs < 0
                                         ? Clock::time_point::max()
                                         : Clock::now() + std::chrono::milliseconds(timeoutMs);
  if (uses->awaitEnd(Clock::now())) return 0;
  // This thread runs no link: one that is lent has to go back to its own.
  const CompletionQueue::Waiting waiting(*completions_);
  if (AgentLink* const quick = quick_.load()) quick->lent().takeBack();
  return uses->awaitEnd(deadline) ? 0 : -ETIMEDOUT;
}

int ClientContext::stat(void* id, const char* path, xfer_gd2fs_stat* into) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  if (into == nullptr) return -EINVAL;
  return submit(id, [&](AgentLink& link, std::shared_ptr<Request> request) {
    return statOn(link, std::move(request), std::move(located), into);
  });
}

int ClientContext::create(void* id, const char* path) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  return submit(id, [&](AgentLink& link, std::shared_ptr<Request> request) {
    if (!liesIn(kVolumeRoot, located))
      return createOn(link, std::move(request), std::move(located));
    return changeOn(link, std::move(request), ClientMessage::kCreate, std::move(located));
  });
}

Task<void> ClientContext::createOn(AgentLink& link, std::shared_ptr<Request> request,
                                   std::string path) {
  Task<Result<ResolvedPath>> resolving = link.resolve(std::move(path), request->deadline);
  const Result<ResolvedPath> resolved = co_await resolving;
  if (resolved.ok()) co_return request->fail(statusOf(ErrorCode::kAlreadyExists));
  request->fail(resolved.code() == ErrorCode::kNotFound ? requestStatus(EROFS)
                                                        : statusOf(resolved.code()));
}

Task<void> ClientContext::statOn(AgentLink& link, std::shared_ptr<Request> request,
                                 std::string path, xfer_gd2fs_stat* into) {
  Task<Result<ResolvedPath>> resolving = link.resolve(std::move(path), request->deadline);
  const Result<ResolvedPath> resolved = co_await resolving;
  if (!resolved.ok()) co_return request->fail(statusOf(resolved.code()));
  const xfer_gd2fs_stat filled = statOf(*resolved);
  if (!copyIfThere(std::as_writable_bytes(std::span(into, 1)),
                   std::as_bytes(std::span(&filled, 1))))
    request->fail(requestStatus(EFAULT));
}

}  // namespace hearth::gd2fs
