#include "volume/log_replay.h"

namespace hearth {
namespace {

Error misunderstood(tree::Parse kind) {
  return {kind == tree::Parse::kLater ? ErrorCode::kUnsupported : ErrorCode::kCorrupt,
          "a record of the volume's log cannot be understood"};
}

}  // namespace

Status TreeReplay::apply(std::span<const std::byte> record) {
  const tree::ParsedRecord parsed = tree::parseRecord(record);
  if (parsed.kind != tree::Parse::kGood) return misunderstood(parsed.kind);
  Status applied = tree_.apply(parsed.record);
  if (applied.ok()) return applied;
  return Error{ErrorCode::kCorrupt, applied.error().message};
}

bool TreeReplay::isOf(const tree::WideId& store, const tree::WideId& volume) const {
  const tree::Volume& has = tree_.tree().volume();
  return tree_.lastRecord() == 0 || (has.store == store && has.volume == volume);
}

Status PositionReplay::loaded(const tree::CheckpointHead& head) {
  last_ = {head.epoch, head.lastRecord};
  return {};
}

Status PositionReplay::apply(std::span<const std::byte> record) {
  const tree::RawRecord raw = tree::parseRawRecord(record);
  if (raw.kind != tree::Parse::kGood) return misunderstood(raw.kind);
  if (raw.number != last_.record + 1 || raw.epoch < last_.epoch) {
    return Error{ErrorCode::kCorrupt, "record " + std::to_string(raw.number) +
                                          " of the volume's log does not follow record " +
                                          std::to_string(last_.record)};
  }
  last_ = {raw.epoch, raw.number};
  return {};
}

}  // namespace hearth
