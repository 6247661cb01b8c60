// The fields of each query and of its answer, as change_fields.h has those of changes.
#pragma once

#include <cstdint>
#include <vector>

#include "volume/change_fields.h"
#include "volume/query_message.h"

namespace hearth {

// One inode has no more: kMaxXattrBytes.
inline constexpr std::size_t kMaxXattrNames = tree::kMaxXattrBytes / tree::kXattrOverhead;

template <class Io>
void visitFields(Io& io, LookUpQuery& it) {
  io.part(it.place);
}
template <class Io>
void visitFields(Io& io, AttributesQuery& it) {
  io(it.inode);
}
template <class Io>
void visitFields(Io& io, OpenQuery& it) {
  io(it.inode);
  io.maybe(it.place);
}
template <class Io>
void visitFields(Io& io, ListQuery& it) {
  io(it.folder);
  io(it.after);
  io(it.most);
}
template <class Io>
void visitFields(Io& io, TargetQuery& it) {
  io(it.inode);
}
template <class Io>
void visitFields(Io& io, XattrQuery& it) {
  io(it.inode);
  io(it.name);
}
template <class Io>
void visitFields(Io& io, XattrNamesQuery& it) {
  io(it.inode);
}
template <class Io>
void visitFields(Io&, UsageQuery&) {}
template <class Io>
void visitFields(Io& io, ExistQuery& it) {
  io(it.folder);
  io.list(it.names, kMaxAskedNames);
}
template <class Io>
void visitFields(Io& io, AgentQuery& it) {
  io(it.agent);
}
template <class Io>
void visitFields(Io& io, ListedEntry& it) {
  io(it.name);
  io(it.cookie);
  io.part(it.attributes);
}
template <class Io>
void visitFields(Io& io, tree::Usage& it) {
  io(it.bytes);
  io(it.inodes);
  io(it.maxBytes);
  io(it.maxInodes);
}
template <class Io>
void visitFields(Io& io, QueryReply& it) {
  io(it.error);
  io.maybe(it.attributes);
  io.maybe(it.content);
  io(it.text);
  io.list(it.names, kMaxXattrNames);
  io(it.more);
  io.list(it.entries, kMaxListed);
  io.maybe(it.usage);
  std::vector<std::uint8_t> exist(it.exist.begin(), it.exist.end());
  io.list(exist, kMaxAskedNames);
  it.exist.assign(exist.begin(), exist.end());
}

}  // namespace hearth
