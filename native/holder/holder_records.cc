#include "holder/holder_records.h"

namespace hearth {
namespace {

using RecordField = HolderField;

}  // namespace

HolderFieldWriter fieldsOf(const HolderHello& hello) {
  HolderFieldWriter out;
  out.number(RecordField::kOldestVersion, hello.oldestVersion);
  out.number(RecordField::kNewestVersion, hello.newestVersion);
  out.words(RecordField::kFeatures, hello.features);
  out.text(RecordField::kRelease, hello.release);
  out.number(RecordField::kInstance, hello.instance);
  out.number(RecordField::kTouchBytes, hello.touchBytes);
  return out;
}

bool readHolderHello(HolderFieldSink& in, const HolderFieldValue& field, HolderHello& hello) {
  switch (field.field()) {
    case RecordField::kOldestVersion:
      return in.number(field, hello.oldestVersion);
    case RecordField::kNewestVersion:
      return in.number(field, hello.newestVersion);
    case RecordField::kFeatures:
      field.words(hello.features);
      return true;
    case RecordField::kRelease:
      return in.text(field, hello.release, kMaxHolderText);
    case RecordField::kInstance:
      return in.number(field, hello.instance);
    case RecordField::kTouchBytes:
      return in.number(field, hello.touchBytes);
    default:
      return false;
  }
}

HolderFieldWriter fieldsOf(const HolderRecord& record) {
  HolderFieldWriter out;
  out.text(RecordField::kTarget, record.target);
  out.text(RecordField::kSource, record.source);
  out.text(RecordField::kOwner, record.owner);
  out.number(RecordField::kEpoch, record.epoch);
  out.number(RecordField::kMinor, record.minor);
  out.number(RecordField::kAttached, record.attached ? 1 : 0);
  out.number(RecordField::kAborted, record.aborted ? 1 : 0);
  out.number(RecordField::kAbsentSeconds, record.absentSeconds);
  out.text(RecordField::kBlob, record.blob);
  out.text(RecordField::kState, record.state);
  out.number(RecordField::kFlags, record.flags);
  return out;
}

HolderRecord readHolderRecord(HolderFieldSink& outer, std::span<const std::byte> body) {
  HolderRecord record;
  HolderFieldSink in(body);
  in.each([&](const HolderFieldValue& field) {
    switch (field.field()) {
      case RecordField::kTarget:
        return in.plain(field, record.target, kMaxHolderPath);
      case RecordField::kSource:
        return in.plain(field, record.source, kMaxHolderText);
      case RecordField::kOwner:
        return in.text(field, record.owner, kMaxHolderText);
      case RecordField::kEpoch:
        return in.number(field, record.epoch);
      case RecordField::kMinor:
        return in.number(field, record.minor);
      case RecordField::kAttached:
        return in.flag(field, record.attached);
      case RecordField::kAborted:
        return in.flag(field, record.aborted);
      case RecordField::kAbsentSeconds:
        return in.number(field, record.absentSeconds);
      case RecordField::kBlob:
        return in.text(field, record.blob, kMaxHolderBlob);
      case RecordField::kState:
        return in.text(field, record.state, kMaxHolderBlob);
      case RecordField::kFlags:
        return in.number(field, record.flags);
      default:
        return false;
    }
  });
  if (!in.good()) outer.refuse();
  return record;
}

HolderFieldWriter fieldsOf(const HolderMemory& memory) {
  HolderFieldWriter out;
  out.text(RecordField::kOwner, memory.owner);
  out.text(RecordField::kName, memory.name);
  out.number(RecordField::kBytes, memory.bytes);
  out.number(RecordField::kGeneration, memory.generation);
  out.number(RecordField::kAbsentSeconds, memory.absentSeconds);
  out.number(RecordField::kAttached, memory.attached ? 1 : 0);
  out.number(RecordField::kUsersGone, memory.usersGone ? 1 : 0);
  out.number(RecordField::kTouched, memory.touched ? 1 : 0);
  out.number(RecordField::kFolder, memory.folder ? 1 : 0);
  out.text(RecordField::kNoHugePages, memory.noHugePages);
  return out;
}

HolderMemory readHolderMemory(HolderFieldSink& outer, std::span<const std::byte> body) {
  HolderMemory memory;
  HolderFieldSink in(body);
  in.each([&](const HolderFieldValue& field) {
    switch (field.field()) {
      case RecordField::kOwner:
        return in.text(field, memory.owner, kMaxHolderText);
      case RecordField::kName:
        return in.text(field, memory.name, kMaxHolderText);
      case RecordField::kBytes:
        return in.number(field, memory.bytes);
      case RecordField::kGeneration:
        return in.number(field, memory.generation);
      case RecordField::kAbsentSeconds:
        return in.number(field, memory.absentSeconds);
      case RecordField::kAttached:
        return in.flag(field, memory.attached);
      case RecordField::kUsersGone:
        return in.flag(field, memory.usersGone);
      case RecordField::kTouched:
        return in.flag(field, memory.touched);
      case RecordField::kFolder:
        return in.flag(field, memory.folder);
      case RecordField::kNoHugePages:
        return in.text(field, memory.noHugePages, kMaxHolderText);
      default:
        return false;
    }
  });
  if (!in.good()) outer.refuse();
  return memory;
}

}  // namespace hearth
