#include "wire/capability.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/byte_codec.h"
#include "base/content_key.h"
#include "base/optional_fields.h"

namespace hearth {
namespace {

constexpr std::uint8_t kClaimsVersion = 1;
constexpr std::uint16_t kNamespaceField = 1, kPodField = 2, kNodesField = 3;
constexpr std::string_view kTextPrefix = "hearth-token-1.";
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string toBase64Url(std::span<const std::byte> bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const std::byte byte : bytes) {
    bits = (bits << 8) | static_cast<std::uint32_t>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[(bits >> (count - 6)) & 63];
  }
  if (count != 0) text += kDigits[(bits << (6 - count)) & 63];
  return text;
}

std::optional<std::vector<std::byte>> fromBase64Url(std::string_view text) {
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const std::size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> count));
  }
  const bool spare = count >= 6 || (bits & ((1u << count) - 1)) != 0;
  if (spare) return std::nullopt;
  return bytes;
}

Sha256Digest keyOf(std::span<const std::byte> claims, std::span<const std::byte> secret) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.bytes(bytesOf("hearth capability 1"));
  out.u8(0);
  out.bytes(claims);
  return Sha256::hmac(secret, input);
}

Sha256Digest proofOf(ConnectionRole role, std::span<const std::byte> hello,
                     std::span<const std::byte> challenge, const Sha256Digest& key) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.bytes(
      bytesOf(role == ConnectionRole::kDialler ? "hearth wire 2 client" : "hearth wire 2 agent"));
  out.u8(0);
  out.u32(static_cast<std::uint32_t>(hello.size()));
  out.bytes(hello);
  out.bytes(challenge);
  return Sha256::hmac(std::as_bytes(std::span(key)), input);
}

void putTextField(ByteWriter& out, std::uint16_t tag, std::string_view text) {
  std::vector<std::byte> value;
  ByteWriter(value).text(text);
  putField(out, tag, value);
}

void putNodesField(ByteWriter& out, const std::vector<std::string>& nodes) {
  std::vector<std::byte> value;
  ByteWriter names(value);
  names.u16(static_cast<std::uint16_t>(std::min<std::size_t>(nodes.size(), 0xffff)));
  for (const std::string& node : nodes) names.text(node);
  putField(out, kNodesField, value);
}

Error badToken(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace

bool Capability::grants(CapabilityRight right, std::string_view dataset) const {
  if ((rights & static_cast<std::uint32_t>(right)) == 0) return false;
  return std::ranges::any_of(
      datasets, [&](const std::string& each) { return each == dataset || each == kAnyDataset; });
}

bool Capability::grantsVolume(CapabilityRight right, std::string_view volume) const {
  if ((rights & static_cast<std::uint32_t>(right)) == 0) return false;
  return std::ranges::any_of(datasets, [&](std::string_view each) {
    if (!each.starts_with(kVolumeGrant)) return false;
    each.remove_prefix(kVolumeGrant.size());
    return each == volume || each == kAnyDataset;
  });
}

bool Capability::isFor(std::string_view agentNode) const {
  if (!node.empty() && node != agentNode) return false;
  return nodes.empty() || std::ranges::find(nodes, agentNode) != nodes.end();
}

bool Capability::isOf(std::string_view programNode) const {
  return isFor(programNode) && (nodes.empty() || nodes.front() == programNode);
}

bool Capability::expired() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return static_cast<std::uint64_t>(ms) >= expiresAtMs;
}

Result<std::vector<std::byte>> encodeCapability(const Capability& capability) {
  std::vector<std::byte> claims;
  ByteWriter out(claims);
  out.u8(kClaimsVersion);
  out.text(capability.cluster);
  out.text(capability.node);
  out.u64(capability.expiresAtMs);
  out.u32(capability.rights);
  out.u16(static_cast<std::uint16_t>(std::min<std::size_t>(capability.datasets.size(), 0xffff)));
  for (const std::string& dataset : capability.datasets) out.text(dataset);
  if (!capability.podNamespace.empty()) putTextField(out, kNamespaceField, capability.podNamespace);
  if (!capability.pod.empty()) putTextField(out, kPodField, capability.pod);
  if (!capability.nodes.empty()) putNodesField(out, capability.nodes);
  if (claims.size() > kMaxCapabilityBytes)
    return badToken("a token names more datasets than fit into 4096 bytes; make several tokens");
  return claims;
}

namespace {

ClientIdentity identityOf(const Capability& capability) {
  if (!capability.pod.empty())
    return {capability.podNamespace, capability.podNamespace + "/" + capability.pod};
  Capability same = capability;
  same.expiresAtMs = 0;
  same.nodes = {};
  const Result<std::vector<std::byte>> claims = encodeCapability(same);
  // Claims that were decoded are short enough. No namespace begins so.
  const std::string name = claims.ok() ? "/" + hexOf(Sha256::of(*claims)) : "/";
  return {name, name};
}

}  // namespace

Result<Capability> decodeCapability(std::span<const std::byte> claims) {
  if (claims.size() > kMaxCapabilityBytes) return badToken("a token is longer than 4096 bytes");
  ByteReader in(claims);
  const bool known = in.u8() == kClaimsVersion;
  Capability capability;
  capability.cluster = in.text();
  capability.node = in.text();
  capability.expiresAtMs = in.u64();
  capability.rights = in.u32();
  const std::uint16_t count = in.u16();
  for (std::uint16_t i = 0; i < count && in.ok(); ++i) capability.datasets.push_back(in.text());
  if (!known || !in.ok()) return badToken("a token has the wrong shape");
  OptionalFields fields(in);
  while (auto field = fields.next()) {
    switch (field->tag & ~kMustUnderstand) {
      case kNamespaceField:
        capability.podNamespace = field->value.text();
        break;
      case kPodField:
        capability.pod = field->value.text();
        break;
      case kNodesField:
        for (std::uint16_t left = field->value.u16(); left > 0 && field->value.ok(); --left)
          capability.nodes.push_back(field->value.text());
        break;
      default:
        if (field->mustUnderstand()) return badToken("a later release has made the token");
        continue;
    }
    if (!field->value.ok()) return badToken("a token has the wrong shape");
  }
  if (fields.malformed()) return badToken("a token has the wrong shape");
  capability.client = identityOf(capability);
  capability.id = hexOf(Sha256::of(claims));
  return capability;
}

Result<CapabilityToken> signCapability(const Capability& capability,
                                       std::span<const std::byte> secret) {
  Result<std::vector<std::byte>> claims = encodeCapability(capability);
  if (!claims.ok()) return claims.error();
  const Sha256Digest key = keyOf(*claims, secret);
  return CapabilityToken{std::move(*claims), key};
}

std::string textOf(const CapabilityToken& token) {
  return std::string(kTextPrefix) + toBase64Url(token.claims) + "." +
         toBase64Url(std::as_bytes(std::span(token.key)));
}

Result<CapabilityToken> parseCapabilityToken(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return badToken("the token is empty");
  text = text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
  if (!text.starts_with(kTextPrefix)) return badToken("this is no token; make one by hearth token");
  text.remove_prefix(kTextPrefix.size());
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return badToken("the token is cut off");
  std::optional<std::vector<std::byte>> claims = fromBase64Url(text.substr(0, dot));
  const std::optional<std::vector<std::byte>> key = fromBase64Url(text.substr(dot + 1));
  CapabilityToken token;
  if (!claims || !key || key->size() != token.key.size())
    return badToken("the token is cut off or has foreign characters");
  std::memcpy(token.key.data(), key->data(), key->size());
  token.claims = std::move(*claims);
  const Result<Capability> sound = decodeCapability(token.claims);
  if (!sound.ok()) return sound.error();
  return token;
}

Proof proveCapability(ConnectionRole role, std::span<const std::byte> hello,
                      std::span<const std::byte> challenge, const CapabilityToken& token) {
  const Sha256Digest code = proofOf(role, hello, challenge, token.key);
  Proof proof{ProofKind::kCapability, {}};
  ByteWriter out(proof.bytes);
  out.bytes(std::as_bytes(std::span(code)));
  if (role == ConnectionRole::kDialler) out.bytes(token.claims);
  return proof;
}

Result<CapabilityToken> checkCapability(const Proof& proof, std::span<const std::byte> hello,
                                        std::span<const std::byte> challenge,
                                        std::string_view cluster,
                                        std::span<const std::byte> secret) {
  const auto refused = [](std::string why) {
    return Error{ErrorCode::kUnauthenticated, std::move(why)};
  };
  constexpr std::size_t kCodeBytes = std::tuple_size_v<Sha256Digest>;
  if (proof.kind != ProofKind::kCapability || proof.bytes.size() <= kCodeBytes)
    return refused("the client proved no token");
  CapabilityToken token;
  token.claims.assign(proof.bytes.begin() + kCodeBytes, proof.bytes.end());
  token.key = keyOf(token.claims, secret);
  if (!sameProof(proof, proveCapability(ConnectionRole::kDialler, hello, challenge, token)))
    return refused("the client's token was not made with the secret of this cluster");
  const Result<Capability> capability = decodeCapability(token.claims);
  if (!capability.ok()) return refused(capability.error().message);
  if (capability->cluster != cluster) return refused("the client's token is of another cluster");
  if (capability->expired()) return refused("the client's token has expired; make a new one");
  return token;
}

}  // namespace hearth
