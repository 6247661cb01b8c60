// One call of DeviceFiles, cut into slices that lanes take. Not a door: only the room uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device_files.h"
#include "gpu/opened_file.h"

namespace hearth {

// A piece whose file is open and whose memory was checked.
struct OpenedPiece {
  std::shared_ptr<OpenedFile> file;
  std::uint64_t offset = 0;
  MemorySlice memory;
  bool reachesEnd = false;  // of the file
};

struct TransferSlice {
  const OpenedPiece* piece = nullptr;
  std::uint64_t offset = 0;    // in the file
  std::uint64_t inRegion = 0;  // in the region of the piece
  std::size_t size = 0;
  bool endsFile = false;

  [[nodiscard]] std::uint64_t address() const { return piece->memory.region->address() + inRegion; }
};

// The lanes' mutex guards it, except for `use` and `pieces`, which never change.
class Transfer {
 public:
  Transfer(FileUse use, std::vector<OpenedPiece> pieces) : use(use), pieces(std::move(pieces)) {}

  // The next slice, which ends at a multiple of `sliceBytes` in the file, so that only the first
  // and the last slice of a piece are misaligned. None: all have been taken, or one has failed.
  [[nodiscard]] std::optional<TransferSlice> take(std::size_t sliceBytes);
  void finish(const TransferSlice& slice, TransferPath path, const Status& status);
  // Why a slice is not moved directly. The first obstacle stays; a path that was chosen freely
  // gives way to it.
  void explain(std::string why, bool byChoice);
  // Nothing more will happen.
  [[nodiscard]] bool isDone() const { return underWay == 0 && (failed || next == pieces.size()); }

  const FileUse use;
  const std::vector<OpenedPiece> pieces;
  Transferred moved;
  Error error;  // when `failed`
  bool failed = false;

 private:
  bool explainedByChoice = false;
  std::size_t next = 0;      // of the pieces
  std::uint64_t taken = 0;   // of that piece's bytes
  std::size_t underWay = 0;  // slices
};

}  // namespace hearth
