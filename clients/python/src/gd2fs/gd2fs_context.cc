#include "gd2fs_context.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "request_object.h"
#include "unlocked.h"

namespace hearth::python {
namespace {

constexpr std::uint16_t kCancelled = XFER_GD2FS_CLASS_REQUEST << 8 | ECANCELED;

}  // namespace

Gd2fsContext::Gd2fsContext(xfer_gd2fs_ctx* context)
    : context_(context), process_(getpid()), taker_(new std::thread([this] { deliver(); })) {}

void Gd2fsContext::begin(RequestObject& request) {
  request.ended->expect();
  const std::lock_guard lock(inFlight_);
  request.previous = nullptr;
  request.next = first_;
  if (first_ != nullptr) first_->previous = &request;
  first_ = &request;
}

void Gd2fsContext::revoke(RequestObject& request) {
  request.ended->forgo();
  unlink(request);
}

void Gd2fsContext::unlink(RequestObject& request) {
  const std::lock_guard lock(inFlight_);
  (request.previous != nullptr ? request.previous->next : first_) = request.next;
  if (request.next != nullptr) request.next->previous = request.previous;
}

int Gd2fsContext::drain(xfer_gd2fs_iomem* memory, int milliseconds) {
  int error = -xfer_gd2fs_drain(context_, memory, 0);
  if (error != ETIMEDOUT || milliseconds == 0) return error;
  const Unlocked unlocked;
  return -xfer_gd2fs_drain(context_, memory, milliseconds);
}

// A program that deregisters memory lets go of it next, also when its read goes on, as that of a
// ReadAsync() does that was cancelled, or when the driver of a GPU still copies for one that
// failed.
int Gd2fsContext::deregister(xfer_gd2fs_iomem* memory) {
  int error = EBUSY;
  // Another thread may begin a request between the two calls.
  while (error == EBUSY) {
    error = drain(memory, -1);
    if (error == 0) error = -xfer_gd2fs_dereg_iomem(context_, memory);
  }
  return error;
}

void Gd2fsContext::end(RequestObject& request) {
  // The request may be gone as soon as it is in the queue.
  const std::shared_ptr<EndedRequests> queue = request.ended;
  queue->push(&request);
}

void Gd2fsContext::close() {
  if (getpid() != process_) return;
  {
    const Unlocked unlocked;
    xfer_gd2fs_close(context_);
    const std::lock_guard lock(closing_);
    if (taker_ != nullptr) taker_->join();
    delete taker_;
    taker_ = nullptr;
  }
  // A context that is closed gives out no more completions. Its requests have ended all the same,
  // and with the GIL held none is between begin() and revoke().
  while (RequestObject* const request = first_) {
    unlink(*request);
    request->value = 0;
    request->status = kCancelled;
    end(*request);
  }
}

void Gd2fsContext::deliver() {
  std::array<xfer_gd2fs_completion, 128> completions{};
  int count = 0;
  while ((count = xfer_gd2fs_wait(context_, completions.data(), completions.size(), -1)) > 0) {
    for (const auto& completion : std::span(completions).first(static_cast<std::size_t>(count))) {
      auto& request = *static_cast<RequestObject*>(completion.id);
      unlink(request);
      request.value = completion.value;
      request.status = completion.status;
      request.isQuiescent = XFER_GD2FS_IS_QUIESCENT(completion);
      end(request);
    }
  }
}

}  // namespace hearth::python
