#include "directory/directory_message.h"

#include "base/optional_fields.h"

namespace hearth {
namespace {

// Bounds of what is believed; more is a malformed message.
constexpr std::size_t kMaxHolders = 64;
constexpr std::size_t kMaxFetching = kMaxStripes * kChunksPerStripe;

void write(ByteWriter& writer, const std::vector<StripeHolder>& agents) {
  writer.u16(static_cast<std::uint16_t>(agents.size()));
  for (const StripeHolder& agent : agents) {
    writer.text(agent.node);
    writer.u16(agent.chunks);
    writer.u16(agent.inMemory);
  }
}

bool read(ByteReader& reader, std::vector<StripeHolder>& agents) {
  const std::size_t count = reader.u16();
  if (count > kMaxHolders) return false;
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    StripeHolder agent;
    agent.node = reader.text();
    agent.chunks = reader.u16();
    agent.inMemory = reader.u16();
    agents.push_back(std::move(agent));
  }
  return true;
}

// Of a request: an intent that the fixed part has no value for, to which it is a look.
constexpr std::uint16_t kIntentField = 1;
constexpr std::uint16_t kLeaveField = 2;  // a LeaveRequest
// Of an answer to kLocate: LocateAnswer::arriving.
constexpr std::uint16_t kArrivingField = 1;
// Of a report: the agent's CopyState.
constexpr std::uint16_t kCopyField = 1;

// The fixed part was there, and what follows it are fields that need not be understood.
bool passOverFields(ByteReader& reader) {
  OptionalFields fields(reader);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand()) return false;
  }
  return reader.ok() && !fields.malformed();
}

}  // namespace

std::vector<std::byte> encode(const DirectoryRequest& request) {
  ByteWriter writer;
  writer.bytes(std::as_bytes(std::span(request.key.bytes)));
  writer.u64(request.size);
  writer.u32(request.stripe);
  writer.u16(request.chunks);
  const auto intent = static_cast<std::uint8_t>(request.intent);
  const bool later = request.intent == Intent::kReadThrough || request.intent == Intent::kInspect;
  writer.u8(later ? 0 : intent);
  writer.u8(request.failure.held ? 1 : 0);
  writer.text(request.failure.node);
  writer.u16(request.inMemory);
  if (later) putField(writer, kIntentField, std::as_bytes(std::span(&intent, 1)));
  if (request.leave) {
    ByteWriter leave;
    leave.u64(request.leave->number);
    leave.u64(static_cast<std::uint64_t>(request.leave->usedAtMs));
    putField(writer, kLeaveField, leave.take());
  }
  return writer.take();
}

std::optional<DirectoryRequest> decodeDirectoryRequest(std::span<const std::byte> body) {
  ByteReader reader(body);
  DirectoryRequest request;
  reader.bytes(std::as_writable_bytes(std::span(request.key.bytes)));
  request.size = reader.u64();
  request.stripe = reader.u32();
  request.chunks = reader.u16();
  const auto intent = static_cast<Intent>(reader.u8());
  if (intent == Intent::kRead || intent == Intent::kFetch) request.intent = intent;
  request.failure.held = reader.u8() != 0;
  request.failure.node = reader.text();
  request.inMemory = reader.u16();
  OptionalFields fields(reader);
  while (auto field = fields.next()) {
    if (field->tag == kIntentField) {
      const auto later = static_cast<Intent>(field->value.u8());
      if (later == Intent::kReadThrough || later == Intent::kInspect) request.intent = later;
    } else if (field->tag == kLeaveField) {
      LeaveRequest leave{.number = field->value.u64()};
      leave.usedAtMs = static_cast<std::int64_t>(field->value.u64());
      if (!field->value.ok()) return std::nullopt;
      request.leave = leave;
    } else if (field->mustUnderstand()) {
      return std::nullopt;
    }
  }
  if (!reader.ok() || fields.malformed() || request.size > kMaxStripes * kStripeBytes)
    return std::nullopt;
  return request;
}

std::vector<std::byte> encode(const std::vector<DirectoryUpdate>& updates) {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(updates.size()));
  for (const auto& [type, request] : updates) {
    writer.u16(static_cast<std::uint16_t>(type));
    writer.bytes(std::as_bytes(std::span(request.key.bytes)));
    writer.u64(request.size);
    writer.u32(request.stripe);
    writer.u16(request.chunks);
    writer.u16(request.inMemory);
  }
  return writer.take();
}

std::optional<std::vector<DirectoryUpdate>> decodeDirectoryUpdates(
    std::span<const std::byte> body) {
  ByteReader reader(body);
  const std::size_t count = reader.u32();
  if (count > kMaxUpdates) return std::nullopt;
  std::vector<DirectoryUpdate> updates(count);
  for (auto& [type, request] : updates) {
    type = static_cast<DirectoryMessage>(reader.u16());
    const bool known = type == DirectoryMessage::kHave || type == DirectoryMessage::kGiveUp ||
                       type == DirectoryMessage::kDropped;
    reader.bytes(std::as_writable_bytes(std::span(request.key.bytes)));
    request.size = reader.u64();
    request.stripe = reader.u32();
    request.chunks = reader.u16();
    request.inMemory = reader.u16();
    if (!known || request.size > kMaxStripes * kStripeBytes) return std::nullopt;
  }
  if (!passOverFields(reader)) return std::nullopt;
  return updates;
}

std::vector<std::byte> encode(const LocateAnswer& answer) {
  ByteWriter writer;
  writer.u16(answer.granted);
  writer.u32(answer.sharers);
  writer.u16(answer.elsewhere);
  write(writer, answer.holders);
  write(writer, answer.fetchers);
  if (answer.arriving != 0) {
    ByteWriter arriving;
    arriving.u16(answer.arriving);
    putField(writer, kArrivingField, arriving.take());
  }
  return writer.take();
}

std::optional<LocateAnswer> decodeLocateAnswer(std::span<const std::byte> body) {
  ByteReader reader(body);
  LocateAnswer answer;
  answer.granted = reader.u16();
  answer.sharers = reader.u32();
  answer.elsewhere = reader.u16();
  if (!read(reader, answer.holders) || !read(reader, answer.fetchers)) return std::nullopt;
  OptionalFields fields(reader);
  while (auto field = fields.next()) {
    if (field->tag == kArrivingField) {
      answer.arriving = field->value.u16();
      if (!field->value.ok()) return std::nullopt;
    } else if (field->mustUnderstand()) {
      return std::nullopt;
    }
  }
  if (!reader.ok() || fields.malformed()) return std::nullopt;
  // Only of those for which a fetcher is named.
  ChunkMask named = 0;
  for (const StripeHolder& fetcher : answer.fetchers) named |= fetcher.chunks;
  answer.arriving &= named;
  return answer;
}

std::vector<std::byte> encode(const AgentReport& report) {
  ByteWriter writer;
  writer.u8(report.wants ? 1 : 0);
  writer.u32(static_cast<std::uint32_t>(report.held.size()));
  for (const ChunkMask chunks : report.held) writer.u16(chunks);
  writer.u32(static_cast<std::uint32_t>(report.fetching.size()));
  for (const std::uint32_t chunk : report.fetching) writer.u32(chunk);
  writer.u32(static_cast<std::uint32_t>(report.inMemory.size()));
  for (const ChunkMask chunks : report.inMemory) writer.u16(chunks);
  if (report.copy) {
    ByteWriter copy;
    copy.u8(report.copy->stored ? 1 : 0);
    copy.text(report.copy->asked);
    copy.u64(report.copy->request);
    putField(writer, kCopyField, copy.take());
  }
  return writer.take();
}

std::optional<AgentReport> decodeAgentReport(std::span<const std::byte> body) {
  ByteReader reader(body);
  AgentReport report;
  report.wants = reader.u8() != 0;
  const std::size_t held = reader.u32();
  if (held > kMaxStripes || held * 2 > reader.left()) return std::nullopt;
  for (std::size_t i = 0; i < held; ++i) report.held.push_back(reader.u16());
  const std::size_t fetching = reader.u32();
  if (fetching > kMaxFetching || fetching * 4 > reader.left()) return std::nullopt;
  for (std::size_t i = 0; i < fetching; ++i) report.fetching.push_back(reader.u32());
  const std::size_t inMemory = reader.u32();
  if (inMemory > kMaxStripes || inMemory * 2 > reader.left()) return std::nullopt;
  for (std::size_t i = 0; i < inMemory; ++i) report.inMemory.push_back(reader.u16());
  OptionalFields fields(reader);
  while (auto field = fields.next()) {
    if (field->tag == kCopyField) {
      CopyState copy;
      copy.stored = field->value.u8() != 0;
      copy.asked = field->value.text();
      copy.request = field->value.u64();
      if (!field->value.ok()) return std::nullopt;
      report.copy = std::move(copy);
    } else if (field->mustUnderstand()) {
      return std::nullopt;
    }
  }
  if (!reader.ok() || fields.malformed()) return std::nullopt;
  return report;
}

std::vector<std::byte> encode(ReleaseAnswer answer) {
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(answer));
  return writer.take();
}

std::optional<ReleaseAnswer> decodeReleaseAnswer(std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto answer = static_cast<ReleaseAnswer>(reader.u8());
  if (!passOverFields(reader)) return std::nullopt;
  const bool known = answer == ReleaseAnswer::kGranted || answer == ReleaseAnswer::kUnconfirmed;
  return known ? answer : ReleaseAnswer::kRefused;
}

}  // namespace hearth
