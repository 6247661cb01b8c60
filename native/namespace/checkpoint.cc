#include "namespace/checkpoint.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/byte_codec.h"
#include "base/crc32c.h"
#include "base/optional_fields.h"

namespace hearth::tree {
namespace {

using Step = CheckpointReader::Step;

constexpr std::array<std::uint8_t, 8> kMagic{'H', 'R', 'T', 'H', 'T', 'R', 'E', 'E'};
constexpr std::uint16_t kCheckpointVersion = 1;
constexpr std::size_t kBlockHeaderBytes = 9;
// A block is closed once it has as many; no item is longer than a record.
constexpr std::size_t kFullBlockBytes = 64 * 1024;
static_assert(kFullBlockBytes + kMaxRecordBytes + kBlockHeaderBytes < kMaxBlockBytes);

enum BlockType : std::uint8_t { kHeadBlock = 1, kItemsBlock = 2, kEndBlock = 3 };

void appendBlock(Bytes& to, std::uint8_t type, std::span<const std::byte> payload) {
  ByteWriter framed;
  framed.u32(static_cast<std::uint32_t>(kBlockHeaderBytes + payload.size()));
  framed.u8(type);
  framed.bytes(payload);
  const Bytes bytes = framed.take();
  ByteWriter out(to);
  out.u32(crc32c(bytes));
  out.bytes(bytes);
}

std::string_view textOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

// The fault that the optional fields behind `in` show, if any.
std::optional<Step> faultOfRest(ByteReader& in) {
  OptionalFields fields(in);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand()) return Step::kLater;
  }
  if (fields.malformed() || !in.ok()) return Step::kBad;
  return std::nullopt;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointHead& head, Bytes& out) : out_(out) {
  ByteWriter payload;
  payload.bytes(std::as_bytes(std::span(kMagic)));
  payload.u16(kCheckpointVersion);
  payload.u64(head.epoch);
  payload.u64(head.lastRecord);
  appendBlock(out_, kHeadBlock, payload.take());
}

void CheckpointWriter::add(CheckpointItem item) {
  ByteWriter out(items_);
  out.u16(static_cast<std::uint16_t>(item.key.size()));
  out.bytes(item.key);
  out.u32(static_cast<std::uint32_t>(item.value.size()));
  out.bytes(item.value);
  ++count_;
  if (items_.size() >= kFullBlockBytes) flush();
}

void CheckpointWriter::flush() {
  if (!items_.empty()) appendBlock(out_, kItemsBlock, items_);
  items_.clear();
}

void CheckpointWriter::finish() {
  flush();
  ByteWriter payload;
  payload.u64(count_);
  appendBlock(out_, kEndBlock, payload.take());
}

void CheckpointReader::feed(std::span<const std::byte> bytes) {
  // Blocks that were read go, unless the present one is among them.
  if (items_.empty()) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  const std::size_t offset = static_cast<std::size_t>(items_.data() - buffer_.data());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  items_ = std::span<const std::byte>(buffer_).subspan(offset, items_.size());
}

Step CheckpointReader::stop(Step step) {
  stopped_ = step;
  return step;
}

Step CheckpointReader::next() {
  if (stopped_) return *stopped_;
  while (items_.empty()) {
    const Step step = nextBlock();
    if (step != Step::kItem) return step;
  }
  ByteReader in(items_);
  item_.key = in.raw(in.u16());
  item_.value = in.raw(in.u32());
  if (!in.ok() || item_.key.empty()) return stop(Step::kBad);
  items_ = items_.last(in.left());
  if (textOf(item_.key) <= lastKey_) return stop(Step::kBad);
  lastKey_ = textOf(item_.key);
  ++count_;
  return Step::kItem;
}

// kItem: go on, the block was taken.
Step CheckpointReader::nextBlock() {
  const auto left = std::span<const std::byte>(buffer_).subspan(at_);
  if (left.size() < kBlockHeaderBytes) return Step::kMore;
  ByteReader in(left);
  const std::uint32_t checksum = in.u32();
  const std::uint32_t size = in.u32();
  if (size < kBlockHeaderBytes || size > kMaxBlockBytes) return stop(Step::kBad);
  if (left.size() < size) return Step::kMore;
  const auto framed = left.subspan(4, size - 4);
  if (crc32c(framed) != checksum) return stop(Step::kBad);
  at_ += size;
  return takeBlock(static_cast<std::uint8_t>(framed[4]), framed.subspan(5));
}

Step CheckpointReader::takeBlock(std::uint8_t type, std::span<const std::byte> payload) {
  ByteReader in(payload);
  if (!head_) {
    const auto magic = in.fixed<8>();
    if (type != kHeadBlock || magic != kMagic) return stop(Step::kBad);
    if (in.u16() != kCheckpointVersion) return stop(Step::kLater);
    CheckpointHead head;
    head.epoch = in.u64();
    head.lastRecord = in.u64();
    if (const auto fault = faultOfRest(in)) return stop(*fault);
    head_ = head;
    return Step::kItem;
  }
  if (type == kItemsBlock && !payload.empty()) {
    items_ = payload;
    return Step::kItem;
  }
  if (type != kEndBlock || in.u64() != count_) return stop(Step::kBad);
  return stop(faultOfRest(in).value_or(Step::kEnd));
}

Status RecordsSince::add(const RawRecord& record) {
  if (first_ == 0) {
    first_ = record.number;
  } else if (record.number != last_.lastRecord + 1 || record.epoch < last_.epoch) {
    return Error{ErrorCode::kInvalidArgument, "record " + std::to_string(record.number) +
                                                  " of a volume does not follow record " +
                                                  std::to_string(last_.lastRecord)};
  }
  last_ = {record.epoch, record.number};
  for (const RawChange& change : record.changes) {
    std::optional<std::string> value;
    if (change.value) value = textOf(*change.value);
    bytes_ += change.key.size() + (value ? value->size() : 0);
    auto [at, added] = changes_.try_emplace(std::string(textOf(change.key)));
    if (!added) bytes_ -= change.key.size() + (at->second ? at->second->size() : 0);
    at->second = std::move(value);
  }
  return {};
}

bool CheckpointMerge::begin(std::uint64_t lastRecord) {
  if (since_.first_ != lastRecord + 1) return false;
  writer_.emplace(since_.last_, out_);
  return true;
}

// Writes what the records put below this key; none: all that is left.
void CheckpointMerge::addUpTo(std::optional<std::string_view> key) {
  while (!since_.changes_.empty()) {
    const auto first = since_.changes_.begin();
    if (key && first->first >= *key) return;
    if (first->second) writer_->add({bytesOf(first->first), bytesOf(*first->second)});
    since_.changes_.erase(first);
  }
}

Step CheckpointMerge::feed(std::span<const std::byte> bytes) {
  old_.feed(bytes);
  for (;;) {
    const Step step = old_.next();
    if (step != Step::kItem && step != Step::kEnd) return step;
    if (!writer_ && !begin(old_.head().lastRecord)) return Step::kBad;
    if (step == Step::kEnd) {
      addUpTo(std::nullopt);
      writer_->finish();
      return step;
    }
    const std::string_view key = textOf(old_.item().key);
    addUpTo(key);
    const bool changed = !since_.changes_.empty() && since_.changes_.begin()->first == key;
    if (!changed) writer_->add(old_.item());
    // A put of the same key is written as the next of addUpTo(), a delete is dropped there.
  }
}

Step CheckpointMerge::finishWithoutOld() {
  if (!begin(0)) return Step::kBad;
  addUpTo(std::nullopt);
  writer_->finish();
  return Step::kEnd;
}

}  // namespace hearth::tree
