// A record with every kind of key, for tests of the formats.
#pragma once

#include "namespace/record.h"

namespace hearth::tree {

inline Record recordOfAllKinds() {
  const ClientId client{AgentId{3}, {4, 5}};
  const InodeId inode{idOf(6, 7)};
  const SessionId session{idOf(8, 9)};
  const ChunkRun run{session, 10, 11, AgentId{12}};
  Answer answer{.error = 16, .refusal = Refusal::kHeld, .created = true, .inode = inode};
  answer.removed = InodeId{13};
  answer.session = session;
  answer.content = {session, 14};
  answer.holder = client;
  Record record{15, 16, {}};
  auto& changes = record.changes;
  changes.push_back({Key::ofVolume(), Volume{{1}, {2}, 15, 17, 18}});
  changes.push_back({Key::of(AgentId{3}), Agent{"node", {4, 5}}});
  changes.push_back({Key::of(client), Client{19}});
  changes.push_back({Key::of(ChangeId{client, 20}), KeptResult{21, answer}});
  changes.push_back(
      {Key::of(KeyKind::kInode, inode), Inode{Kind::kFile, 0644, 22, 23, 24, -25, 26, 27, 28}});
  changes.push_back(
      {Key::of(KeyKind::kContent, inode),
       Content{{session, 29}, (std::uint64_t{12} << 22) - 1, false, {run, {.count = 1}}}});
  changes.push_back({Key::of(KeyKind::kTarget, inode), Target{"to/there"}});
  changes.push_back({Key::ofEntry(inode, 30), Entry{InodeId{31}, "name"}});
  changes.push_back({Key::ofXattr(inode, "user.x"), Xattr{std::string("v\0w", 3)}});
  changes.push_back({Key::of(KeyKind::kSession, inode), Session{session, client}});
  changes.push_back({Key::of(GarbageId{32, 33}), Garbage{inode, true, true, {run}}});
  for (std::size_t i = 0, puts = changes.size(); i < puts; ++i) {
    changes.push_back({changes[i].key, {}});
  }
  return record;
}

}  // namespace hearth::tree
