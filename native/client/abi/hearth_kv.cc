// The C interface of key spaces.
#include "client/include/xfer/hearth_kv.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "client/abi/c_boundary.h"
#include "client/abi/contexts.h"
#include "client/kv_space.h"

using hearth::Clock;
using hearth::gd2fs::Contexts;
using hearth::gd2fs::KeysQuestion;
using hearth::gd2fs::KvSpace;
using hearth::gd2fs::orNegativeErrno;
using hearth::gd2fs::orNull;

struct hearth_kv {
  hearth_kv(std::shared_ptr<hearth::gd2fs::ClientContext> context, hearth::KeySpace name)
      : space(std::move(context), std::move(name)) {}
  KvSpace space;
};

namespace {

hearth_kv* kvFailed(int error) {
  errno = error;
  return nullptr;
}

hearth_kv* openSpace(const xfer_gd2fs_ctx* ctx, const hearth_kv_space* space) {
  auto context = Contexts::all().find(ctx);
  if (context == nullptr) return kvFailed(EBADF);
  auto name = space == nullptr ? hearth::Error{hearth::ErrorCode::kInvalidArgument, ""}
                               : KvSpace::nameOf(*space);
  if (!name.ok()) return kvFailed(EINVAL);
  auto kv = std::make_unique<hearth_kv>(std::move(context), std::move(*name));
  const int bad = kv->space.open();
  return bad != 0 ? kvFailed(-bad) : kv.release();
}

// `call` of the space, which may be null.
template <class Call>
int onSpace(hearth_kv* kv, Call call) {
  return orNegativeErrno([&] {
    if (kv == nullptr) return -EINVAL;
    return kv->space.isOfThisProcess() ? call(kv->space) : -EBADF;
  });
}

int askSpace(hearth_kv* kv, const hearth_kv_batch* batch, KeysQuestion question) {
  return onSpace(kv, [&](KvSpace& space) { return space.ask(batch, question); });
}

Clock::time_point kvDeadlineOf(int timeoutMs) {
  return timeoutMs < 0 ? Clock::time_point::max()
                       : Clock::now() + std::chrono::milliseconds(timeoutMs);
}

// Takes what is there, with the layout of the program's release.
int takeBatches(KvSpace& space, hearth_kv_completion* into, int max) {
  auto* at = reinterpret_cast<std::byte*>(into);
  const std::size_t stride = into->size;
  return space.queue().take(max, [&](const hearth_kv_completion& done) {
    auto& completion = *reinterpret_cast<hearth_kv_completion*>(at);
    completion = done;
    completion.size = stride;
    at += stride;
  });
}

int waitForBatches(hearth_kv* kv, hearth_kv_completion* completions, int max, int timeoutMs) {
  return onSpace(kv, [&](KvSpace& space) {
    if (completions == nullptr || max <= 0 || completions->size < sizeof *completions ||
        completions->size % alignof(hearth_kv_completion) != 0)
      return -EINVAL;
    const Clock::time_point deadline = kvDeadlineOf(timeoutMs);
    while (true) {
      const int taken = takeBatches(space, completions, max);
      if (taken != 0 || Clock::now() >= deadline) return taken;
      space.queue().await(deadline);
    }
  });
}

}  // namespace

extern "C" {

hearth_kv* hearth_kv_open(xfer_gd2fs_ctx* ctx, const hearth_kv_space* space) {
  return orNull<hearth_kv*>([&] { return openSpace(ctx, space); });
}

void hearth_kv_close(hearth_kv* kv) { delete kv; }

int hearth_kv_put(hearth_kv* kv, const hearth_kv_batch* batch) {
  return onSpace(kv, [&](KvSpace& space) { return space.put(batch); });
}

int hearth_kv_get(hearth_kv* kv, const hearth_kv_batch* batch) {
  return onSpace(kv, [&](KvSpace& space) { return space.get(batch); });
}

int hearth_kv_exists(hearth_kv* kv, const hearth_kv_batch* batch) {
  return askSpace(kv, batch, KeysQuestion::kExist);
}

int hearth_kv_prefix(hearth_kv* kv, const hearth_kv_batch* batch) {
  return askSpace(kv, batch, KeysQuestion::kPrefix);
}

int hearth_kv_delete(hearth_kv* kv, const hearth_kv_batch* batch) {
  return askSpace(kv, batch, KeysQuestion::kDelete);
}

int hearth_kv_cancel(hearth_kv* kv, const void* id) {
  return onSpace(kv, [&](KvSpace& space) { return space.queue().cancel(id); });
}

int hearth_kv_drain(hearth_kv* kv, int timeout_ms) {
  return onSpace(kv, [&](KvSpace& space) {
    return space.queue().drain(kvDeadlineOf(timeout_ms)) ? 0 : -ETIMEDOUT;
  });
}

int hearth_kv_event_fd(const hearth_kv* kv) {
  return kv == nullptr ? -EINVAL : const_cast<hearth_kv*>(kv)->space.queue().descriptor();
}

int hearth_kv_poll(hearth_kv* kv, hearth_kv_completion* completions, int max) {
  return waitForBatches(kv, completions, max, 0);
}

int hearth_kv_wait(hearth_kv* kv, hearth_kv_completion* completions, int max, int timeout_ms) {
  return waitForBatches(kv, completions, max, timeout_ms);
}
}
