#include "namespace/value_codec.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/byte_codec.h"
#include "base/generated/constants.h"
#include "base/optional_fields.h"

namespace hearth::tree {
namespace {

// Of two contents that were subtracted from one another, and of a session's rest.
constexpr std::size_t kMaxGarbageRuns = 3 * kMaxRuns;

template <class T>
void bigEndian(Bytes& to, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) {
    to.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
}

template <class T>
T bigEndian(ByteReader& in) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = value << 8 | in.u8();
  return static_cast<T>(value);
}

void putClient(ByteWriter& out, const ClientId& client) {
  out.u32(static_cast<std::uint32_t>(client.agent));
  out.bytes(std::as_bytes(std::span(client.incarnation)));
}

ClientId takeClient(ByteReader& in) {
  ClientId client;
  client.agent = AgentId{in.u32()};
  client.incarnation = in.fixed<16>();
  return client;
}

void putVersion(ByteWriter& out, const ContentVersion& version) {
  out.u64(static_cast<std::uint64_t>(version.session));
  out.u32(version.counter);
}

ContentVersion takeVersion(ByteReader& in) {
  ContentVersion version;
  version.session = SessionId{in.u64()};
  version.counter = in.u32();
  return version;
}

void putRuns(ByteWriter& out, const std::vector<ChunkRun>& runs) {
  out.u32(static_cast<std::uint32_t>(runs.size()));
  for (const ChunkRun& run : runs) {
    out.u64(static_cast<std::uint64_t>(run.session));
    out.u32(run.first);
    out.u32(run.count);
    out.u32(static_cast<std::uint32_t>(run.holder));
  }
}

bool possible(const ChunkRun& run) {
  if (run.count == 0 || run.count > kAllChunks - run.first) return false;
  return run.session != kNoSession ? run.holder != kNoAgent
                                   : run.first == 0 && run.holder == kNoAgent;
}

bool takeRuns(ByteReader& in, std::size_t most, std::vector<ChunkRun>& runs) {
  const std::uint32_t count = in.u32();
  if (count > most) return false;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    ChunkRun run;
    run.session = SessionId{in.u64()};
    run.first = in.u32();
    run.count = in.u32();
    run.holder = AgentId{in.u32()};
    if (!possible(run)) return false;
    runs.push_back(run);
  }
  return true;
}

void putFields(ByteWriter&, const std::monostate&) {}
bool takeFields(ByteReader&, std::monostate&) { return false; }

void putFields(ByteWriter& out, const Volume& value) {
  out.bytes(std::as_bytes(std::span(value.store)));
  out.bytes(std::as_bytes(std::span(value.volume)));
  out.u64(value.epoch);
  out.u64(value.maxBytes);
  out.u64(value.maxInodes);
}
bool takeFields(ByteReader& in, Volume& value) {
  value.store = in.fixed<16>();
  value.volume = in.fixed<16>();
  value.epoch = in.u64();
  value.maxBytes = in.u64();
  value.maxInodes = in.u64();
  return value.epoch <= kMaxEpoch;
}

void putFields(ByteWriter& out, const Agent& value) {
  out.text(value.node);
  out.bytes(std::as_bytes(std::span(value.current)));
}
bool takeFields(ByteReader& in, Agent& value) {
  value.node = in.text();
  value.current = in.fixed<16>();
  return !value.node.empty() && value.node.size() <= kMaxNameBytes;
}

void putFields(ByteWriter& out, const Client& value) { out.u64(value.bound); }
bool takeFields(ByteReader& in, Client& value) {
  value.bound = in.u64();
  return true;
}

void putFields(ByteWriter& out, const KeptResult& value) {
  const Answer& answer = value.answer;
  out.u64(value.record);
  out.u32(static_cast<std::uint32_t>(answer.error));
  out.u8(static_cast<std::uint8_t>(answer.refusal));
  out.u8(answer.created ? 1 : 0);
  out.u64(static_cast<std::uint64_t>(answer.inode));
  out.u64(static_cast<std::uint64_t>(answer.removed));
  out.u64(static_cast<std::uint64_t>(answer.session));
  putVersion(out, answer.content);
  putClient(out, answer.holder);
}
bool takeFields(ByteReader& in, KeptResult& value) {
  Answer& answer = value.answer;
  value.record = in.u64();
  const std::uint32_t error = in.u32();
  answer.error = static_cast<std::int32_t>(error);
  answer.refusal = static_cast<Refusal>(in.u8());
  const std::uint8_t created = in.u8();
  answer.created = created == 1;
  answer.inode = InodeId{in.u64()};
  answer.removed = InodeId{in.u64()};
  answer.session = SessionId{in.u64()};
  answer.content = takeVersion(in);
  answer.holder = takeClient(in);
  return error <= 4095 && created <= 1;
}

void putFields(ByteWriter& out, const Inode& value) {
  out.u8(static_cast<std::uint8_t>(value.kind));
  out.u16(value.mode);
  out.u32(value.uid);
  out.u32(value.gid);
  out.u32(value.links);
  out.u64(static_cast<std::uint64_t>(value.accessedNs));
  out.u64(static_cast<std::uint64_t>(value.modifiedNs));
  out.u64(static_cast<std::uint64_t>(value.changedNs));
  out.u64(value.version);
}
bool takeFields(ByteReader& in, Inode& value) {
  const std::uint8_t kind = in.u8();
  value.kind = static_cast<Kind>(kind);
  value.mode = in.u16();
  value.uid = in.u32();
  value.gid = in.u32();
  value.links = in.u32();
  value.accessedNs = static_cast<std::int64_t>(in.u64());
  value.modifiedNs = static_cast<std::int64_t>(in.u64());
  value.changedNs = static_cast<std::int64_t>(in.u64());
  value.version = in.u64();
  return kind >= static_cast<std::uint8_t>(Kind::kFile) &&
         kind <= static_cast<std::uint8_t>(Kind::kSocket) && value.mode <= 07777;
}

void putFields(ByteWriter& out, const Content& value) {
  putVersion(out, value.version);
  out.u64(value.length);
  out.u8(value.listed ? 1 : 0);
  putRuns(out, value.runs);
}
bool takeFields(ByteReader& in, Content& value) {
  value.version = takeVersion(in);
  value.length = in.u64();
  const std::uint8_t listed = in.u8();
  value.listed = listed == 1;
  return listed <= 1 && takeRuns(in, kMaxRuns, value.runs) && isPlausible(value);
}

void putFields(ByteWriter& out, const Target& value) { out.text(value.path); }
bool takeFields(ByteReader& in, Target& value) {
  value.path = in.text();
  return !value.path.empty() && value.path.size() <= kMaxTargetBytes;
}

void putFields(ByteWriter& out, const Entry& value) {
  out.u64(static_cast<std::uint64_t>(value.inode));
  out.text(value.name);
}
bool takeFields(ByteReader& in, Entry& value) {
  value.inode = InodeId{in.u64()};
  value.name = in.text();
  return isName(value.name);
}

void putFields(ByteWriter& out, const Xattr& value) { out.text(value.value); }
bool takeFields(ByteReader& in, Xattr& value) {
  value.value = in.text();
  return value.value.size() <= kMaxXattrBytes;
}

void putFields(ByteWriter& out, const Session& value) {
  out.u64(static_cast<std::uint64_t>(value.id));
  putClient(out, value.holder);
}
bool takeFields(ByteReader& in, Session& value) {
  value.id = SessionId{in.u64()};
  value.holder = takeClient(in);
  return value.id != kNoSession;
}

void putFields(ByteWriter& out, const Garbage& value) {
  out.u64(static_cast<std::uint64_t>(value.inode));
  out.u8(static_cast<std::uint8_t>((value.listed ? 1 : 0) | (value.lessNamed ? 2 : 0)));
  putRuns(out, value.runs);
}
bool takeFields(ByteReader& in, Garbage& value) {
  value.inode = InodeId{in.u64()};
  const std::uint8_t flags = in.u8();
  value.listed = (flags & 1) != 0;
  value.lessNamed = (flags & 2) != 0;
  return flags <= 3 && takeRuns(in, kMaxGarbageRuns, value.runs) &&
         std::ranges::none_of(value.runs,
                              [](const ChunkRun& run) { return run.session == kNoSession; });
}

// The alternative of Value with that index.
template <std::size_t... indices>
bool emplaceValue(std::size_t index, Value& into, std::index_sequence<indices...>) {
  return ((index == indices && (into.emplace<indices>(), true)) || ...);
}

Decoded decodeValue(ByteReader in, KeyKind kind, Value& into) {
  constexpr auto kAll = std::make_index_sequence<std::variant_size_v<Value>>();
  if (!emplaceValue(static_cast<std::size_t>(kind), into, kAll)) return Decoded::kBad;
  const bool fine = std::visit([&](auto& value) { return takeFields(in, value); }, into);
  if (!fine || !in.ok()) return Decoded::kBad;
  OptionalFields fields(in);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand()) return Decoded::kLater;
  }
  return fields.malformed() ? Decoded::kBad : Decoded::kGood;
}

ClientId takeKeyClient(ByteReader& in) {
  ClientId client;
  client.agent = AgentId{bigEndian<std::uint32_t>(in)};
  client.incarnation = in.fixed<16>();
  return client;
}

Decoded decodeKey(ByteReader in, Key& key) {
  const std::uint8_t kind = in.u8();
  if (!in.ok()) return Decoded::kBad;
  key.kind = static_cast<KeyKind>(kind);
  switch (key.kind) {
    case KeyKind::kVolume:
      break;
    case KeyKind::kAgent:
      key.client.agent = AgentId{bigEndian<std::uint32_t>(in)};
      break;
    case KeyKind::kClient:
      key.client = takeKeyClient(in);
      break;
    case KeyKind::kResult:
      key.client = takeKeyClient(in);
      key.number = bigEndian<std::uint64_t>(in);
      break;
    case KeyKind::kInode:
    case KeyKind::kContent:
    case KeyKind::kTarget:
    case KeyKind::kSession:
      key.inode = InodeId{bigEndian<std::uint64_t>(in)};
      break;
    case KeyKind::kEntry:
      key.inode = InodeId{bigEndian<std::uint64_t>(in)};
      key.number = bigEndian<std::uint64_t>(in);
      break;
    case KeyKind::kXattr: {
      key.inode = InodeId{bigEndian<std::uint64_t>(in)};
      const auto name = in.raw(in.left());
      if (name.empty() || name.size() > kMaxNameBytes) return Decoded::kBad;
      key.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
      break;
    }
    case KeyKind::kGarbage:
      key.number = bigEndian<std::uint64_t>(in);
      key.index = bigEndian<std::uint32_t>(in);
      break;
    default:
      return (kind & kOptionalKind) != 0 ? Decoded::kSkipped : Decoded::kLater;
  }
  return in.finished() ? Decoded::kGood : Decoded::kBad;
}

}  // namespace

bool isName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

bool isPlausible(const Content& content) {
  if (content.version == ContentVersion{} || content.runs.size() > kMaxRuns) return false;
  std::uint64_t chunks = 0;
  for (const ChunkRun& run : content.runs) {
    if (!possible(run) || (content.listed && run.session == kNoSession)) return false;
    chunks += run.count;
  }
  if (content.listed) return chunks != 0 && content.length != 0;
  return chunks == content.length / kChunkBytes + (content.length % kChunkBytes != 0 ? 1 : 0);
}

void encodeKey(const Key& key, Bytes& to) {
  to.push_back(static_cast<std::byte>(key.kind));
  const auto agent = static_cast<std::uint32_t>(key.client.agent);
  const auto inode = static_cast<std::uint64_t>(key.inode);
  const auto incarnation = std::as_bytes(std::span(key.client.incarnation));
  switch (key.kind) {
    case KeyKind::kVolume:
      return;
    case KeyKind::kAgent:
      return bigEndian(to, agent);
    case KeyKind::kClient:
    case KeyKind::kResult:
      bigEndian(to, agent);
      to.insert(to.end(), incarnation.begin(), incarnation.end());
      if (key.kind == KeyKind::kResult) bigEndian(to, key.number);
      return;
    case KeyKind::kInode:
    case KeyKind::kContent:
    case KeyKind::kTarget:
    case KeyKind::kSession:
      return bigEndian(to, inode);
    case KeyKind::kEntry:
      bigEndian(to, inode);
      return bigEndian(to, key.number);
    case KeyKind::kXattr: {
      bigEndian(to, inode);
      const auto name = std::as_bytes(std::span(key.name));
      to.insert(to.end(), name.begin(), name.end());
      return;
    }
    case KeyKind::kGarbage:
      bigEndian(to, key.number);
      return bigEndian(to, key.index);
  }
}

void encodeValue(const Value& value, Bytes& to) {
  ByteWriter out(to);
  std::visit([&](const auto& fields) { putFields(out, fields); }, value);
}

Decoded decodeChange(std::span<const std::byte> key,
                     std::optional<std::span<const std::byte>> value, KeyChange& into) {
  const Decoded known = decodeKey(ByteReader(key), into.key);
  if (known != Decoded::kGood) return known;
  if (!value) {
    into.value = std::monostate{};
    return Decoded::kGood;
  }
  return decodeValue(ByteReader(*value), into.key.kind, into.value);
}

}  // namespace hearth::tree
