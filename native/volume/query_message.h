// Bodies of the messages by which a client asks a volume's leader about its tree, and of the
// answers; and how a tree answers them. Written as change_message.h says, with the fields in the
// order below. A body has at most kMaxControlBytes (wire/frame.h): lists are bounded so that none
// is longer. Pure: any thread, and for answerQuery the tree's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "namespace/namespace.h"

namespace hearth {

inline constexpr std::uint32_t kMaxListed = 1024;
// About 600 KiB with the longest names.
inline constexpr std::size_t kMaxAskedNames = 2048;

struct LookUpQuery {
  tree::Place place;
};
struct AttributesQuery {
  tree::InodeId inode = tree::kNoInode;
};
// An open for reading: attributes and content; ESTALE when the name means another inode now (R9).
struct OpenQuery {
  tree::InodeId inode = tree::kNoInode;
  std::optional<tree::Place> place;
};
struct ListQuery {
  tree::InodeId folder = tree::kNoInode;
  std::uint64_t after = 0;  // a cookie
  std::uint32_t most = 0;   // kMaxListed at most
};
struct TargetQuery {
  tree::InodeId inode = tree::kNoInode;
};
struct XattrQuery {
  tree::InodeId inode = tree::kNoInode;
  std::string name;
};
struct XattrNamesQuery {
  tree::InodeId inode = tree::kNoInode;
};
struct UsageQuery {};
// Which of the names there are in a folder.
struct ExistQuery {
  tree::InodeId folder = tree::kNoInode;
  std::vector<std::string> names;
};
// The node's name of an agent.
struct AgentQuery {
  tree::AgentId agent = tree::kNoAgent;
};
using VolumeQuery = std::variant<LookUpQuery, AttributesQuery, OpenQuery, ListQuery, TargetQuery,
                                 XattrQuery, XattrNamesQuery, UsageQuery, ExistQuery, AgentQuery>;

struct QueryMessage {
  tree::WideId volume{};
  std::uint64_t epoch = 0;
  VolumeQuery query;
};

struct ListedEntry {
  std::string name;
  std::uint64_t cookie = 0;
  tree::Attributes attributes;
};

// One layout for all answers; fields that a query does not ask for are empty.
struct QueryReply {
  std::int32_t error = 0;                      // an errno
  std::optional<tree::Attributes> attributes;  // LookUp, Attributes, Open
  std::optional<tree::Content> content;        // Open, of a file that has one
  std::string text;                            // Target, Xattr, Agent
  std::vector<std::string> names;              // XattrNames
  bool more = false;                           // List
  std::vector<ListedEntry> entries;            // List
  std::optional<tree::Usage> usage;            // Usage
  std::vector<bool> exist;                     // Exist, for each name
};

[[nodiscard]] std::vector<std::byte> encode(const QueryMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const QueryReply& reply);
// None: malformed, or of a later release and must be understood.
[[nodiscard]] std::optional<QueryMessage> decodeQuery(std::span<const std::byte> body);
[[nodiscard]] std::optional<QueryReply> decodeQueryReply(std::span<const std::byte> body);

// Errors: ESTALE, ENOTDIR, ENOENT, ENAMETOOLONG; EISDIR (Open), EINVAL (Target), ENODATA (Xattr);
// ENOENT (Agent).
[[nodiscard]] QueryReply answerQuery(const tree::Namespace& tree, const VolumeQuery& query);

}  // namespace hearth
