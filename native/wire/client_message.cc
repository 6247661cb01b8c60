#include "wire/client_message.h"

#include <limits>

#include "base/byte_codec.h"
#include "base/optional_fields.h"

namespace hearth {
namespace {

Error misshapen() { return {ErrorCode::kProtocolError, "a client message of the wrong shape"}; }

// Of ResolvedPath.
constexpr std::uint16_t kShardTag = 1;

// `take(field)` says whether it knows the field. Skips others, which later releases add.
template <class Take>
Status finish(ByteReader& in, Take take) {
  if (!in.ok()) return misshapen();
  OptionalFields fields(in);
  while (auto field = fields.next()) {
    if (take(*field)) {
      if (!field->value.ok()) return misshapen();
    } else if (field->mustUnderstand()) {
      return Error{ErrorCode::kUnsupported, "a later release has made a client message"};
    }
  }
  if (fields.malformed()) return misshapen();
  return {};
}

Status finish(ByteReader& in) {
  return finish(in, [](const OptionalFields::Field&) { return false; });
}

ResolvedKind readKind(ByteReader& in, bool& sound) {
  const std::uint8_t kind = in.u8();
  sound = sound && kind <= static_cast<std::uint8_t>(ResolvedKind::kSymlink);
  return static_cast<ResolvedKind>(kind);
}

// The length of the UTF-8 sequence that `text` begins with (RFC 3629); 0 when there is none.
std::size_t sequenceLength(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return first == 0 ? 0 : 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool surrogate = first == 0xed && at(1) >= 0xa0;
  const bool beyond = first == 0xf4 && at(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

bool liesIn(std::string_view root, std::string_view path) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

Status checkClientPath(std::string_view path) {
  const auto bad = [](std::string why) {
    return Error{ErrorCode::kInvalidArgument, std::move(why)};
  };
  if (path.size() > kMaxClientPathBytes) return bad("the path has more than 4096 bytes");
  if (!path.starts_with('/')) return bad("the path does not begin with /dataset/ or /volume/");
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t length = sequenceLength(rest);
    if (length == 0) return bad("the path is not UTF-8");
    rest.remove_prefix(length);
  }
  return {};
}

std::vector<std::byte> encodePath(std::string_view path) {
  ByteWriter out;
  out.text(path);
  return out.take();
}

Result<std::string> decodePath(std::span<const std::byte> body) {
  ByteReader in(body);
  std::string path = in.text();
  const Status sound = finish(in);
  if (!sound.ok()) return sound.error();
  return path;
}

std::vector<std::byte> encode(const ListRequest& request) {
  ByteWriter out;
  out.text(request.path);
  out.text(request.after);
  return out.take();
}

Result<ListRequest> decodeListRequest(std::span<const std::byte> body) {
  ByteReader in(body);
  ListRequest request;
  request.path = in.text();
  request.after = in.text();
  const Status sound = finish(in);
  if (!sound.ok()) return sound.error();
  return request;
}

std::vector<std::byte> encode(const AdviseRequest& request) {
  ByteWriter out;
  out.text(request.path);
  out.u8(static_cast<std::uint8_t>(request.advice));
  out.u8(static_cast<std::uint8_t>(request.scope));
  return out.take();
}

Result<AdviseRequest> decodeAdviseRequest(std::span<const std::byte> body) {
  ByteReader in(body);
  AdviseRequest request;
  request.path = in.text();
  const std::uint8_t advice = in.u8();
  const std::uint8_t scope = in.u8();
  const Status sound = finish(in);
  if (!sound.ok()) return sound.error();
  if (advice > static_cast<std::uint8_t>(ClientAdvice::kDontNeed)) return misshapen();
  if (scope > static_cast<std::uint8_t>(AdviceScope::kCluster)) return misshapen();
  request.advice = static_cast<ClientAdvice>(advice);
  request.scope = static_cast<AdviceScope>(scope);
  return request;
}

std::vector<std::byte> encode(const WriteRange& range) {
  ByteWriter out;
  out.text(range.path);
  out.u64(range.offset);
  out.u64(range.length);
  return out.take();
}

Result<WriteRange> decodeWriteRange(std::span<const std::byte> body) {
  constexpr auto kMaxOffset = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  ByteReader in(body);
  WriteRange range;
  range.path = in.text();
  range.offset = in.u64();
  range.length = in.u64();
  const Status sound = finish(in);
  if (!sound.ok()) return sound.error();
  if (range.length == 0 || range.offset > kMaxOffset || range.length > kMaxOffset - range.offset)
    return misshapen();
  return range;
}

std::vector<std::byte> encode(const ContentKey& ticket) {
  ByteWriter out;
  out.bytes(std::as_bytes(std::span(ticket.bytes)));
  return out.take();
}

Result<ContentKey> decodeTicket(std::span<const std::byte> body) {
  ByteReader in(body);
  const ContentKey ticket{in.fixed<32>()};
  const Status sound = finish(in);
  if (!sound.ok()) return sound.error();
  return ticket;
}

std::vector<std::byte> encode(const ResolvedPath& resolved) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(resolved.kind));
  out.u8(resolved.executable ? 1 : 0);
  out.u64(resolved.size);
  out.u64(static_cast<std::uint64_t>(resolved.modifiedNs));
  out.bytes(std::as_bytes(std::span(resolved.key.bytes)));
  if (resolved.shard) {
    ByteWriter value;
    value.u32(*resolved.shard);
    putField(out, kShardTag, value.take());
  }
  return out.take();
}

Result<ResolvedPath> decodeResolvedPath(std::span<const std::byte> body) {
  ByteReader in(body);
  ResolvedPath resolved;
  bool known = true;
  resolved.kind = readKind(in, known);
  const std::uint8_t executable = in.u8();
  resolved.executable = executable == 1;
  resolved.size = in.u64();
  resolved.modifiedNs = static_cast<std::int64_t>(in.u64());
  resolved.key.bytes = in.fixed<32>();
  const Status sound = finish(in, [&](OptionalFields::Field& field) {
    if (field.tag != kShardTag) return false;
    resolved.shard = field.value.u32();
    return true;
  });
  if (!sound.ok()) return sound.error();
  if (!known || executable > 1) return misshapen();
  return resolved;
}

std::vector<std::byte> encode(const FolderPage& page) {
  ByteWriter out;
  out.u8(page.last ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(page.entries.size()));
  for (const FolderPage::Entry& entry : page.entries) {
    out.text(entry.name);
    out.u8(static_cast<std::uint8_t>(entry.kind));
    out.u64(entry.size);
  }
  return out.take();
}

Result<FolderPage> decodeFolderPage(std::span<const std::byte> body) {
  constexpr std::size_t kLeastEntryBytes = 11;
  ByteReader in(body);
  FolderPage page;
  const std::uint8_t last = in.u8();
  page.last = last == 1;
  const std::uint32_t count = in.u32();
  if (last > 1 || count > in.left() / kLeastEntryBytes) return misshapen();
  bool known = true;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    FolderPage::Entry& entry = page.entries.emplace_back();
    entry.name = in.text();
    entry.kind = readKind(in, known);
    entry.size = in.u64();
  }
  const Status sound = finish(in);
  if (!sound.ok()) return sound.error();
  if (!known) return misshapen();
  return page;
}

}  // namespace hearth
