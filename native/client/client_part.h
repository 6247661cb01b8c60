// A range inside one chunk, and where it goes. On one thread at a time.
#pragma once

#include <cerrno>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/agent_link.h"
#include "client/client_context.h"
#include "client/completion_status.h"

namespace hearth::gd2fs {

// One that is dropped before it was read, as when the context is closed, fails its request.
struct ClientContext::Part {
  Part(std::shared_ptr<Request> whole, std::shared_ptr<const FileOfAgent> of,
       std::shared_ptr<LocalFile> here, std::uint64_t from, MemoryVector where)
      : request(std::move(whole)),
        file(std::move(of)),
        local(std::move(here)),
        offset(from),
        into(std::move(where)) {}
  Part(Part&&) = default;
  Part& operator=(Part&&) = delete;
  ~Part() {
    if (request != nullptr && !read) request->fail(statusOf(ErrorCode::kCancelled));
  }

  // Agents find nothing wrong with a range of a file that they have resolved: the memory is.
  void fail(const Status& status) {
    read = true;
    request->fail(status.code() == ErrorCode::kInvalidArgument ? requestStatus(EFAULT)
                                                               : statusOf(status.code()));
  }

  // Agents answer from the start of a block: so much before the range goes nowhere.
  [[nodiscard]] static MemoryVector fromBlock(std::uint64_t ahead, MemoryVector into) {
    if (ahead == 0) return into;
    const auto memory =
        std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(ahead));
    std::vector<MemorySlice> slices{
        MemorySlice::of({memory.get(), static_cast<std::size_t>(ahead)}, memory)};
    slices.insert(slices.end(), into.slices().begin(), into.slices().end());
    return MemoryVector(std::move(slices));
  }

  std::shared_ptr<Request> request;
  std::shared_ptr<const FileOfAgent> file;
  std::shared_ptr<LocalFile> local;  // null: over the network
  std::uint64_t offset;
  MemoryVector into;
  bool read = false;
};

// Gives a place of a semaphore back.
class PlaceReturn {
 public:
  explicit PlaceReturn(Semaphore& places) : places_(places) {}
  ~PlaceReturn() { places_.release(1); }
  PlaceReturn(const PlaceReturn&) = delete;
  PlaceReturn& operator=(const PlaceReturn&) = delete;

 private:
  Semaphore& places_;
};

}  // namespace hearth::gd2fs
