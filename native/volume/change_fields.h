// The fields of each change, in the order of its message, for what writes them and what reads them.
// A visitor has one call for each type of field, and `choice` for enumerations, which end at
// `last`.
#pragma once

#include "namespace/namespace.h"

namespace hearth {

template <class Io>
void visitFields(Io& io, tree::Place& it) {
  io(it.folder);
  io(it.name);
}
template <class Io>
void visitFields(Io& io, tree::ContentVersion& it) {
  io(it.session);
  io(it.counter);
}
template <class Io>
void visitFields(Io& io, tree::ChunkRun& it) {
  io(it.session);
  io(it.first);
  io(it.count);
  io(it.holder);
}
template <class Io>
void visitFields(Io& io, tree::ClientId& it) {
  io(it.agent);
  io(it.incarnation);
}
template <class Io>
void visitFields(Io& io, tree::Content& it) {
  io.part(it.version);
  io(it.length);
  io(it.listed);
  io.list(it.runs, tree::kMaxRuns);
}
template <class Io>
void visitFields(Io& io, tree::Create& it) {
  io.part(it.place);
  io.choice(it.kind, tree::Kind::kSocket);
  io(it.mode);
  io(it.uid);
  io(it.gid);
  io(it.exclusive);
  io(it.opens);
}
template <class Io>
void visitFields(Io& io, tree::MakeFolder& it) {
  io.part(it.place);
  io(it.mode);
  io(it.uid);
  io(it.gid);
}
template <class Io>
void visitFields(Io& io, tree::MakeSymlink& it) {
  io.part(it.place);
  io(it.target);
  io(it.uid);
  io(it.gid);
}
template <class Io>
void visitFields(Io& io, tree::Unlink& it) {
  io.part(it.place);
}
template <class Io>
void visitFields(Io& io, tree::RemoveFolder& it) {
  io.part(it.place);
}
template <class Io>
void visitFields(Io& io, tree::Publish& it) {
  io(it.inode);
  io(it.session);
  io.part(it.base);
  io.part(it.content);
  io(it.modifiedNs);
  io(it.usedChunks);
  io(it.ends);
}
template <class Io>
void visitFields(Io& io, tree::Link& it) {
  io(it.inode);
  io.part(it.place);
  io.maybe(it.publish);
}
template <class Io>
void visitFields(Io& io, tree::Rename& it) {
  io.part(it.from);
  io.part(it.to);
  io.choice(it.mode, tree::RenameMode::kExchange);
  io.maybe(it.publish);
}
template <class Io>
void visitFields(Io& io, tree::SetAttributes& it) {
  io(it.inode);
  io.maybe(it.mode);
  io.maybe(it.uid);
  io.maybe(it.gid);
  io.maybe(it.accessedNs);
  io.maybe(it.modifiedNs);
  io.maybe(it.size);
}
template <class Io>
void visitFields(Io& io, tree::SetXattr& it) {
  io(it.inode);
  io(it.name);
  io(it.value);
  io.choice(it.mode, tree::XattrMode::kReplace);
}
template <class Io>
void visitFields(Io& io, tree::RemoveXattr& it) {
  io(it.inode);
  io(it.name);
}
template <class Io>
void visitFields(Io& io, tree::Adoption& it) {
  io(it.session);
  io.part(it.base);
}
template <class Io>
void visitFields(Io& io, tree::OpenForWriting& it) {
  io(it.inode);
  io.maybe(it.place);
  io(it.writes);
  io.maybe(it.adopts);
}
template <class Io>
void visitFields(Io& io, tree::EndSession& it) {
  io(it.inode);
  io(it.session);
  io(it.usedChunks);
}
template <class Io>
void visitFields(Io& io, tree::Answer& it) {
  io(it.error);
  // A refusal of a later release is passed on as its number.
  io.choice(it.refusal, tree::Refusal{0xff});
  io(it.created);
  io(it.inode);
  io(it.removed);
  io(it.session);
  io.part(it.content);
  io.part(it.holder);
}
template <class Io>
void visitFields(Io& io, tree::Attributes& it) {
  io(it.id);
  io.choice(it.inode.kind, tree::Kind::kSocket);
  io(it.inode.mode);
  io(it.inode.uid);
  io(it.inode.gid);
  io(it.inode.links);
  io(it.inode.accessedNs);
  io(it.inode.modifiedNs);
  io(it.inode.changedNs);
  io(it.inode.version);
  io(it.size);
  io.part(it.content);
}

}  // namespace hearth
