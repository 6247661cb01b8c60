// Memory that the other side of one endpoint may write into while one request lasts: a memory
// window of type 2. Its key opens the bytes of that request and nothing else of the region, and
// only for the queue pair of that endpoint. On the endpoint's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "memory/memory_vector.h"
#include "verbs/endpoint.h"

namespace hearth {

class Window {
 public:
  // kUnsupported: the device has no such windows, and the other side has to send its answers.
  // `endpoint` must remain live while this object is used.
  [[nodiscard]] static Result<std::unique_ptr<Window>> create(Endpoint& endpoint);
  // The key of an open window ends, and its memory is released, when the device has let go of the
  // requests that open or close it.
  ~Window() = default;

  // Opens `memory`, whose region is registered with the device, for writes by the other side.
  // `opened` hears the key, or why there is none. Only while the window is closed. The memory is
  // kept until the window is closed.
  void open(MemorySlice memory, std::function<void(Result<std::uint32_t>)> opened);
  // Afterwards the key opens nothing. `closed` hears of an error when the endpoint has failed; then
  // the device has refused the key since its queue pair failed.
  void close(std::function<void(Status)> closed);

  [[nodiscard]] bool isOpen() const;

 private:
  explicit Window(Endpoint& endpoint) : endpoint_(endpoint) {}
  Endpoint& endpoint_;
  std::shared_ptr<OpenedMemory> memory_;
};

}  // namespace hearth
