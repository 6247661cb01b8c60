// The C interface: handles, and what no context has to know.
#include "client/include/xfer/gd2fs.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

#include "base/blocked_signals.h"
#include "client/abi/c_boundary.h"
#include "client/abi/contexts.h"
#include "client/client_context.h"
#include "client/completion_status.h"
#include "memory/guarded_memory.h"

namespace hearth::gd2fs {
namespace {

void complain(const xfer_gd2fs_options& options, const Error& error) {
  const std::string_view level = options.log_level != nullptr ? options.log_level : "";
  if (level == "error" || level == "warn" || level == "info")
    std::fprintf(stderr, "libgd2fs: connect: %s\n", error.message.c_str());
}

// Says what the program does not get as it has asked for it.
void warn(const xfer_gd2fs_options& options, const std::string& warning) {
  const std::string_view level = options.log_level != nullptr ? options.log_level : "";
  if (!warning.empty() && (level == "warn" || level == "info"))
    std::fprintf(stderr, "libgd2fs: connect: %s\n", warning.c_str());
}

xfer_gd2fs_ctx* failed(int error) {
  errno = error;
  return nullptr;
}

}  // namespace
}  // namespace hearth::gd2fs

using hearth::gd2fs::ClientContext;
using hearth::gd2fs::Contexts;
using hearth::gd2fs::orNegativeErrno;
using hearth::gd2fs::orNull;

namespace {

// Signals are the program's, unless it wants the library's handlers for memory that goes in flight.
void chooseGuard() {
  const char* const handlers = std::getenv("HEARTH_GUARD_MEMORY");
  if (handlers == nullptr || std::string_view(handlers) != "1")
    hearth::chooseMemoryGuard(hearth::MemoryGuard::kSystemCalls);
}

xfer_gd2fs_ctx* connectTo(const xfer_gd2fs_options* options) {
  if (options == nullptr) return hearth::gd2fs::failed(EINVAL);
  static std::once_flag guardChosen;
  std::call_once(guardChosen, chooseGuard);
  auto parsed = hearth::gd2fs::clientOptions(*options);
  if (parsed.ok()) hearth::gd2fs::warn(*options, parsed->warning);
  auto context = parsed.ok() ? ClientContext::connect(std::move(*parsed))
                             : hearth::Result<std::shared_ptr<ClientContext>>(parsed.error());
  if (context.ok()) return Contexts::all().add(std::move(*context));
  hearth::gd2fs::complain(*options, context.error());
  return hearth::gd2fs::failed(hearth::gd2fs::errnoOf(context.code()));
}

xfer_gd2fs_iomem* registerMemory(xfer_gd2fs_ctx* ctx, void* addr, size_t len, void* reserved) {
  const auto context = Contexts::all().find(ctx);
  const bool sound = addr != nullptr && len != 0 && reserved == nullptr &&
                     len <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(addr);
  if (context == nullptr || !sound) {
    errno = context == nullptr ? EBADF : EINVAL;
    return nullptr;
  }
  const auto number = context->registerMemory(reinterpret_cast<std::uintptr_t>(addr), len);
  if (number.ok()) return reinterpret_cast<xfer_gd2fs_iomem*>(*number);
  errno = hearth::gd2fs::errnoOf(number.code());
  return nullptr;
}

int waitFor(xfer_gd2fs_ctx* ctx, xfer_gd2fs_completion* completions, int max, int timeout_ms) {
  const auto context = Contexts::all().find(ctx);
  const auto queue = context != nullptr ? context->completions() : Contexts::all().completions(ctx);
  if (queue == nullptr) return -EBADF;
  if (completions == nullptr || max <= 0) return -EINVAL;
  const std::span<xfer_gd2fs_completion> into(completions, static_cast<size_t>(max));
  const int taken =
      context != nullptr ? context->wait(into, timeout_ms) : queue->take(into, timeout_ms);
  if (queue->isOver()) Contexts::all().forget(ctx);
  return taken;
}

// `call` of the context; -EBADF where there is none.
template <class Call>
int onContext(const xfer_gd2fs_ctx* ctx, Call call) {
  return orNegativeErrno([&] {
    const auto context = Contexts::all().find(ctx);
    return context == nullptr ? -EBADF : call(*context);
  });
}

}  // namespace

extern "C" {

xfer_gd2fs_ctx* xfer_gd2fs_connect(const xfer_gd2fs_options* options) {
  const hearth::BlockedSignals blocked;  // for the threads that it starts
  return orNull<xfer_gd2fs_ctx*>([&] { return connectTo(options); });
}

void xfer_gd2fs_close(xfer_gd2fs_ctx* ctx) {
  (void)orNegativeErrno([&] {
    const auto context = Contexts::all().remove(ctx);
    if (context == nullptr) return 0;
    context->close();
    if (context->completions()->isOver()) Contexts::all().forget(ctx);
    return 0;
  });
}

xfer_gd2fs_iomem* xfer_gd2fs_reg_iomem(xfer_gd2fs_ctx* ctx, void* addr, size_t len,
                                       void* reserved) {
  return orNull<xfer_gd2fs_iomem*>([&] { return registerMemory(ctx, addr, len, reserved); });
}

int xfer_gd2fs_dereg_iomem(xfer_gd2fs_ctx* ctx, xfer_gd2fs_iomem* iomem) {
  return onContext(ctx, [&](ClientContext& context) {
    return context.deregisterMemory(reinterpret_cast<std::uintptr_t>(iomem));
  });
}

int xfer_gd2fs_drain(xfer_gd2fs_ctx* ctx, xfer_gd2fs_iomem* iomem, int timeout_ms) {
  return onContext(ctx, [&](ClientContext& context) {
    return context.drain(reinterpret_cast<std::uintptr_t>(iomem), timeout_ms);
  });
}

int xfer_gd2fs_fstat(xfer_gd2fs_ctx* ctx, void* id, const char* path, xfer_gd2fs_stat* st) {
  return onContext(ctx, [&](ClientContext& context) { return context.stat(id, path, st); });
}

ssize_t xfer_gd2fs_preadv(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint64_t off,
                          const xfer_gd2fs_sge* sges, uint16_t nsge, uint16_t flags) {
  return onContext(ctx, [&](ClientContext& context) {
    if (sges == nullptr || flags != 0) return -EINVAL;
    return context.read(id, path, off, {sges, nsge});
  });
}

int xfer_gd2fs_create(xfer_gd2fs_ctx* ctx, void* id, const char* path, int flags, uint64_t) {
  return onContext(
      ctx, [&](ClientContext& context) { return flags != 0 ? -EINVAL : context.create(id, path); });
}

ssize_t xfer_gd2fs_pwritev(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint64_t off,
                           const xfer_gd2fs_sge* sges, uint16_t nsge, uint16_t flags) {
  return onContext(ctx, [&](ClientContext& context) {
    if (sges == nullptr || flags != 0) return -EINVAL;
    return context.write(id, path, off, {sges, nsge});
  });
}

int xfer_gd2fs_unlink(xfer_gd2fs_ctx* ctx, void* id, const char* path) {
  return onContext(ctx, [&](ClientContext& context) { return context.unlink(id, path); });
}

int xfer_gd2fs_list(xfer_gd2fs_ctx* ctx, void* id, const char* path, const char* after,
                    xfer_gd2fs_dirent* entries, uint32_t max) {
  return onContext(ctx, [&](ClientContext& context) {
    if (entries == nullptr || max == 0) return -EINVAL;
    return context.list(id, path, after, {entries, max});
  });
}

int xfer_gd2fs_advise(xfer_gd2fs_ctx* ctx, void* id, const char* path, int advice, int scope) {
  return onContext(ctx,
                   [&](ClientContext& context) { return context.advise(id, path, advice, scope); });
}

int xfer_gd2fs_wait(xfer_gd2fs_ctx* ctx, xfer_gd2fs_completion* completions, int max,
                    int timeout_ms) {
  return orNegativeErrno([&] { return waitFor(ctx, completions, max, timeout_ms); });
}
}
