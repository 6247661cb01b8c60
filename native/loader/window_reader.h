// Reads one rank's share of the windows that the ranks of a node see, ahead of their use. Not a
// door: only the room uses it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "loader/slice_schedule.h"

namespace hearth {

// Its methods are for one thread; its own threads read.
class WindowReader {
 public:
  // `shares`: what this rank reads of each window. `slots`: memory of windows, of which number N
  // gets the slot N % slots.size(). `files` and slots outlive the object. `threads` as in
  // ReadOptions.
  WindowReader(std::span<const std::shared_ptr<const ModelFile>> files,
               std::span<const SliceWindow> shares, std::vector<std::byte*> slots,
               unsigned threads);
  // Waits for reads under way; afterwards no slot is touched.
  ~WindowReader();

  // The reader may fill the slots of windows [0, windows): no rank needs their contents any more.
  void allow(std::size_t windows);
  // Blocks until the share of an allowed window is there. The first failure of any read.
  [[nodiscard]] Status await(std::size_t window);

 private:
  struct Chunk {
    std::size_t window = 0;
    const ModelFile* file = nullptr;
    std::byte* into = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  void work();

  std::vector<Chunk> chunks_;  // by window
  std::mutex mutex_;           // guards all below
  std::condition_variable changed_;
  std::vector<std::size_t> left_;  // chunks of each window that are not there
  std::size_t next_ = 0;
  std::size_t allowed_ = 0;
  bool isEnding_ = false;
  std::optional<Error> failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace hearth
