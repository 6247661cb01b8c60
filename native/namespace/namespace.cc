#include "namespace/namespace.h"

#include <algorithm>
#include <string>
#include <utility>

#include "namespace/execution.h"

namespace hearth::tree {
namespace {

// The result, and the client's bound when it has grown. Results below the bound go.
void keepResult(std::vector<KeyChange>& changes, const ChangeId& id, const KeptResult& result,
                const Tree::ClientState& client, std::uint64_t bound) {
  changes.push_back({Key::of(id), result});
  if (bound == client.bound) return;
  changes.push_back({Key::of(id.client), Client{bound}});
  for (const auto& [number, kept] : client.results) {
    if (number >= bound) return;
    changes.push_back({Key::of(ChangeId{id.client, number}), {}});
  }
}

}  // namespace

Status Namespace::commit(Record& record) {
  for (const KeyChange& change : record.changes) {
    if (Status applied = tree_.apply(change); !applied.ok()) {
      leading_ = false;
      return applied;
    }
  }
  lastRecord_ = record.number;
  return {};
}

Status Namespace::apply(const Record& record) {
  leading_ = false;
  if (record.number != lastRecord_ + 1 || record.epoch < epoch()) {
    return Error{ErrorCode::kInvalidArgument,
                 "record " + std::to_string(record.number) + " of epoch " +
                     std::to_string(record.epoch) + " does not follow record " +
                     std::to_string(lastRecord_) + " of epoch " + std::to_string(epoch())};
  }
  for (const KeyChange& change : record.changes) {
    if (Status applied = tree_.apply(change); !applied.ok()) return applied;
  }
  lastRecord_ = record.number;
  if (record.epoch == epoch()) return {};
  return Error{ErrorCode::kCorrupt, "record " + std::to_string(record.number) +
                                        " is of an epoch that the log did not begin"};
}

Result<Record> Namespace::lead(std::uint64_t epoch, std::int64_t nowNs) {
  if (epoch > kMaxEpoch) {
    return Error{ErrorCode::kUnsupported, "a volume's epochs end at " + std::to_string(kMaxEpoch)};
  }
  if (epoch <= this->epoch()) {
    return Error{ErrorCode::kConflict, "epoch " + std::to_string(epoch) +
                                           " is not above that of the volume's log, " +
                                           std::to_string(this->epoch())};
  }
  Record record{epoch, lastRecord_ + 1, {}};
  Volume volume = tree_.volume();
  if (lastRecord_ == 0) {
    volume.store = options_.store;
    volume.volume = options_.volume;
  }
  volume.epoch = epoch;
  record.changes.push_back({Key::ofVolume(), volume});
  if (lastRecord_ == 0) {
    record.changes.push_back({Key::of(KeyKind::kInode, kRootInode),
                              Inode{.kind = Kind::kFolder,
                                    .mode = static_cast<std::uint16_t>(options_.rootMode & 07777),
                                    .uid = options_.rootUid,
                                    .gid = options_.rootGid,
                                    .links = 2,
                                    .accessedNs = nowNs,
                                    .modifiedNs = nowNs,
                                    .changedNs = nowNs,
                                    .version = record.number}});
  }
  if (Status applied = commit(record); !applied.ok()) return applied.error();
  leading_ = true;
  lastCounter_ = 0;
  return record;
}

Namespace::Outcome Namespace::execute(const Request& request) {
  if (!leading_ || request.epoch != epoch()) return {.answer = failed(EIO, Refusal::kNotLeading)};
  const Tree::ClientState* const client = tree_.client(request.id.client);
  if (client == nullptr) return {.answer = failed(EIO, Refusal::kUnknownClient)};
  const std::uint64_t change = request.id.number;
  const std::uint64_t bound = std::max(client->bound, request.doneBelow);
  if (change < bound) return {.answer = failed(EIO, Refusal::kForgotten)};
  if (const auto kept = client->results.find(change); kept != client->results.end()) {
    return {.answer = kept->second.answer, .record = kept->second.record, .repeated = true};
  }
  if (change - bound >= kMaxKeptResults) return {.answer = failed(EIO, Refusal::kTooFar)};
  if (tree_.agent(request.id.client.agent)->current != request.id.client.incarnation) {
    return {.answer = failed(EIO, Refusal::kSuperseded)};
  }

  Record record{epoch(), lastRecord_ + 1, {}};
  Execution x(tree_, options_, record.number, lastCounter_, request.nowNs, request.id.client);
  const Answer answer =
      std::visit([&](const auto& asked) { return perform(x, asked); }, request.change);
  if (answer.error == 0) record.changes = x.take();
  keepResult(record.changes, request.id, {record.number, answer}, *client, bound);
  if (!commit(record).ok()) return {.answer = failed(EIO, Refusal::kNotLeading)};
  if (answer.error == 0) lastCounter_ = x.lastCounter();
  return {.answer = answer, .record = record.number, .log = std::move(record)};
}

Namespace::Outcome Namespace::decide(const LeaderChange& change, std::int64_t nowNs) {
  if (!leading_) return {.answer = failed(EIO, Refusal::kNotLeading)};
  Record record{epoch(), lastRecord_ + 1, {}};
  Execution x(tree_, options_, record.number, lastCounter_, nowNs, ClientId{});
  const Answer answer = std::visit([&](const auto& asked) { return perform(x, asked); }, change);
  if (answer.error == 0) record.changes = x.take();
  // Nothing to remember: there is no id, and nothing changed.
  if (record.changes.empty()) return {.answer = answer, .record = lastRecord_};
  if (!commit(record).ok()) return {.answer = failed(EIO, Refusal::kNotLeading)};
  return {.answer = answer, .record = record.number, .log = std::move(record)};
}

Status Namespace::load(const CheckpointItem& item) {
  KeyChange change;
  switch (decodeChange(item.key, item.value, change)) {
    case Decoded::kGood:
      return tree_.apply(change);
    case Decoded::kSkipped:
      return {};
    case Decoded::kBad:
      return Error{ErrorCode::kCorrupt, "a volume's checkpoint has a key that cannot be"};
    case Decoded::kLater:
      break;
  }
  return Error{ErrorCode::kUnsupported, "a volume's checkpoint is of a later release of Hearth"};
}

Status Namespace::loaded(const CheckpointHead& head) {
  if (head.epoch != epoch() || (head.lastRecord != 0 && tree_.find(kRootInode) == nullptr)) {
    return Error{ErrorCode::kCorrupt,
                 "a volume's checkpoint is of another epoch than its head says"};
  }
  lastRecord_ = head.lastRecord;
  return {};
}

void Namespace::checkpoint(Bytes& to) const {
  CheckpointWriter writer({epoch(), lastRecord_}, to);
  Bytes key, value;
  tree_.visitKeys([&](const KeyChange& put) {
    key.clear();
    value.clear();
    encodeKey(put.key, key);
    encodeValue(put.value, value);
    writer.add({key, value});
  });
  writer.finish();
}

}  // namespace hearth::tree
