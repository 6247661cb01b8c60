#include "volume/query_message.h"

#include <algorithm>
#include <cerrno>

#include "base/byte_codec.h"
#include "volume/field_codec.h"
#include "volume/query_fields.h"

namespace hearth {
namespace {

QueryReply failure(std::int32_t error) { return {.error = error}; }

QueryReply answer(const tree::Namespace& tree, const LookUpQuery& query) {
  const tree::Found found = tree.lookUp(query.place.folder, query.place.name);
  if (found.error != 0) return failure(found.error);
  return {.attributes = tree.attributes(found.inode)};
}

QueryReply answer(const tree::Namespace& tree, const AttributesQuery& query) {
  const auto attributes = tree.attributes(query.inode);
  return attributes ? QueryReply{.attributes = attributes} : failure(ESTALE);
}

QueryReply answer(const tree::Namespace& tree, const OpenQuery& query) {
  if (query.place && tree.check(*query.place, query.inode) != 0) return failure(ESTALE);
  QueryReply reply = answer(tree, AttributesQuery{query.inode});
  if (reply.error == 0 && reply.attributes->inode.kind == tree::Kind::kFolder) {
    return failure(EISDIR);
  }
  if (const tree::Content* const content = tree.content(query.inode)) reply.content = *content;
  return reply;
}

QueryReply answer(const tree::Namespace& tree, const ListQuery& query) {
  const auto listing = tree.list(query.folder, query.after, std::min(query.most, kMaxListed));
  QueryReply reply{.error = listing.error, .more = listing.more};
  for (const auto& item : listing.items) {
    reply.entries.push_back({std::string(item.name), item.cookie, *tree.attributes(item.inode)});
  }
  return reply;
}

QueryReply answer(const tree::Namespace& tree, const TargetQuery& query) {
  if (!tree.attributes(query.inode)) return failure(ESTALE);
  const std::string* const target = tree.target(query.inode);
  return target == nullptr ? failure(EINVAL) : QueryReply{.text = *target};
}

QueryReply answer(const tree::Namespace& tree, const XattrQuery& query) {
  if (!tree.attributes(query.inode)) return failure(ESTALE);
  const std::string* const value = tree.xattr(query.inode, query.name);
  return value == nullptr ? failure(ENODATA) : QueryReply{.text = *value};
}

QueryReply answer(const tree::Namespace& tree, const XattrNamesQuery& query) {
  if (!tree.attributes(query.inode)) return failure(ESTALE);
  return {.names = tree.xattrs(query.inode)};
}

QueryReply answer(const tree::Namespace& tree, const UsageQuery&) {
  return {.usage = tree.usage()};
}

QueryReply answer(const tree::Namespace& tree, const ExistQuery& query) {
  QueryReply reply;
  for (const std::string& name : query.names) {
    const std::int32_t error = tree.lookUp(query.folder, name).error;
    if (error == ESTALE || error == ENOTDIR) return failure(error);
    reply.exist.push_back(error == 0);
  }
  return reply;
}

QueryReply answer(const tree::Namespace& tree, const AgentQuery& query) {
  const tree::Agent* const agent = tree.tree().agent(query.agent);
  return agent == nullptr ? failure(ENOENT) : QueryReply{.text = agent->node};
}

template <class Io>
void visitHead(Io& io, QueryMessage& it) {
  io(it.volume);
  io(it.epoch);
}

}  // namespace

std::vector<std::byte> encode(const QueryMessage& message) {
  ByteWriter out;
  FieldWriter write(out);
  QueryMessage fields = message;
  visitHead(write, fields);
  writeOneOf(out, write, fields.query);
  return out.take();
}

std::optional<QueryMessage> decodeQuery(std::span<const std::byte> body) {
  ByteReader in(body);
  FieldReader read(in);
  QueryMessage message;
  visitHead(read, message);
  if (!readOneOf(in, read, message.query) || !finishBody(in, read)) return std::nullopt;
  return message;
}

std::vector<std::byte> encode(const QueryReply& reply) {
  ByteWriter out;
  FieldWriter write(out);
  QueryReply fields = reply;
  visitFields(write, fields);
  return out.take();
}

std::optional<QueryReply> decodeQueryReply(std::span<const std::byte> body) {
  ByteReader in(body);
  FieldReader read(in);
  QueryReply reply;
  visitFields(read, reply);
  if (!finishBody(in, read) || reply.error < 0) return std::nullopt;
  return reply;
}

QueryReply answerQuery(const tree::Namespace& tree, const VolumeQuery& query) {
  return std::visit([&](const auto& asked) { return answer(tree, asked); }, query);
}

}  // namespace hearth
