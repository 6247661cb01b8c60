#include "verbs/window.h"

#include <cerrno>

namespace hearth {

Result<std::unique_ptr<Window>> Window::create(Endpoint& endpoint) {
  const std::shared_ptr<RdmaDevice>& device = endpoint.device();
  const Error none{ErrorCode::kUnsupported,
                   std::string(device->name()) + " has no memory windows of type 2"};
  if (!device->limits().hasWindows) return none;
  auto memory = std::make_shared<OpenedMemory>(device);
  errno = ENOMEM;
  memory->window = device->verbs().allocMw(device->pd(), IBV_MW_TYPE_2);
  if (memory->window == nullptr) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return none;
    return errnoError(errno, "allocating a memory window").within(device->name());
  }
  memory->key = memory->window->rkey;
  std::unique_ptr<Window> made(new Window(endpoint));
  made->memory_ = std::move(memory);
  return made;
}

bool Window::isOpen() const { return memory_->isOpen; }

void Window::open(MemorySlice memory, std::function<void(Result<std::uint32_t>)> opened) {
  if (endpoint_.device()->registeredAs(*memory.region) == nullptr) {
    opened(Error{ErrorCode::kUnsupported, "the RDMA device does not know this memory"});
    return;
  }
  memory_->memory = std::move(memory);
  // The low byte is the owner's: a key of an earlier request does not open this one.
  memory_->key = ibv_inc_rkey(memory_->window->rkey);
  memory_->isOpen = true;
  auto transfer = std::make_unique<Transfer>();
  transfer->kind = Transfer::Kind::kOpen;
  transfer->window = memory_;
  transfer->settled = [window = memory_, opened = std::move(opened)](Status status) {
    if (!status.ok()) return opened(status.error());
    window->window->rkey = window->key;
    opened(window->key);
  };
  std::vector<std::unique_ptr<Transfer>> batch;
  batch.push_back(std::move(transfer));
  endpoint_.post(std::move(batch));
}

void Window::close(std::function<void(Status)> closed) {
  auto transfer = std::make_unique<Transfer>();
  transfer->kind = Transfer::Kind::kClose;
  transfer->window = memory_;
  transfer->settled = [window = memory_, closed = std::move(closed)](Status status) {
    // A failed endpoint keeps the memory until the window has gone.
    if (status.ok()) {
      window->isOpen = false;
      window->memory = {};
    }
    closed(std::move(status));
  };
  std::vector<std::unique_ptr<Transfer>> batch;
  batch.push_back(std::move(transfer));
  endpoint_.post(std::move(batch));
}

}  // namespace hearth
