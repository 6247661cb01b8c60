// A checkpoint: all keys of a volume's tree with their values, sorted by the bytes of the keys, as
// of one record. An old checkpoint and the records since give the next one without the tree.
//
// Blocks, little-endian; each is
//   0  u32  CRC32C of all that follows in this block
//   4  u32  bytes of the whole block, at most kMaxBlockBytes
//   8  u8   type: 1 head (the first), 2 items, 3 end (the last)
//   head:   8 bytes "HRTHTREE", u16 version 1, u64 epoch, u64 number of the last record, optional
//           fields
//   items:  each u16 bytes of the key, key, u32 bytes of the value, value
//   end:    u64 number of items, optional fields
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "namespace/record.h"

namespace hearth::tree {

inline constexpr std::size_t kMaxBlockBytes = 512 * 1024;

struct CheckpointHead {
  std::uint64_t epoch = 0;
  std::uint64_t lastRecord = 0;
  bool operator==(const CheckpointHead&) const = default;
};

// Views of the bytes of one key and its value.
struct CheckpointItem {
  std::span<const std::byte> key, value;
};

// Appends blocks to `out`, from which the caller may take them at any time.
class CheckpointWriter {
 public:
  // `out` outlives the writer.
  CheckpointWriter(const CheckpointHead& head, Bytes& out);
  // Keys in ascending order. Key and value as a record may have them.
  void add(CheckpointItem item);
  void finish();

 private:
  void flush();
  Bytes& out_;
  Bytes items_;
  std::uint64_t count_ = 0;
};

// Takes the bytes of a checkpoint in pieces.
class CheckpointReader {
 public:
  enum class Step : std::uint8_t {
    kItem,   // item() is the next one
    kMore,   // feed() has to bring bytes first
    kEnd,    // that was all, and it is whole
    kBad,    // damaged
    kLater,  // of a later release
  };
  void feed(std::span<const std::byte> bytes);
  [[nodiscard]] Step next();
  // Of the last next(); valid until the following call of feed() or next().
  [[nodiscard]] const CheckpointItem& item() const { return item_; }
  // After the first step that is kItem or kEnd.
  [[nodiscard]] const CheckpointHead& head() const { return *head_; }

 private:
  [[nodiscard]] Step nextBlock();
  [[nodiscard]] Step takeBlock(std::uint8_t type, std::span<const std::byte> payload);
  Step stop(Step step);

  Bytes buffer_;
  std::size_t at_ = 0;                // the next block in buffer_
  std::span<const std::byte> items_;  // what is left of the present block, in buffer_
  CheckpointItem item_;
  std::string lastKey_;
  std::optional<CheckpointHead> head_;
  std::uint64_t count_ = 0;
  std::optional<Step> stopped_;
};

// The last put or delete of each key in the records since a checkpoint.
class RecordsSince {
 public:
  // The next record, in order: kInvalidArgument if it is another one. `record` is good.
  [[nodiscard]] Status add(const RawRecord& record);
  // Of the last record that was added.
  [[nodiscard]] const CheckpointHead& last() const { return last_; }
  // About as many bytes of memory as the keys and values have.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  friend class CheckpointMerge;
  std::map<std::string, std::optional<std::string>> changes_;
  CheckpointHead last_;
  std::uint64_t first_ = 0;
  std::size_t bytes_ = 0;
};

// Writes the checkpoint that an old one and all records since it give. Memory: that of the records,
// and of one block.
class CheckpointMerge {
 public:
  // `out` outlives the merge. The records begin behind the old checkpoint's.
  CheckpointMerge(RecordsSince since, Bytes& out) : since_(std::move(since)), out_(out) {}
  // The next bytes of the old checkpoint. kMore, kEnd (done), kBad, kLater.
  [[nodiscard]] CheckpointReader::Step feed(std::span<const std::byte> bytes);
  // Instead of feed(), when there is no old checkpoint: the records are all from the first on.
  [[nodiscard]] CheckpointReader::Step finishWithoutOld();

 private:
  [[nodiscard]] bool begin(std::uint64_t lastRecord);
  void addUpTo(std::optional<std::string_view> key);

  RecordsSince since_;
  Bytes& out_;
  CheckpointReader old_;
  std::optional<CheckpointWriter> writer_;
};

}  // namespace hearth::tree
