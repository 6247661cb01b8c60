// Sessions and publishes: rules R1, R2 and R4 of docs/design/namespace.md, and R11 as far as a
// publish or an end makes garbage.
#include <algorithm>

#include "namespace/execution.h"
#include "namespace/value_codec.h"

namespace hearth::tree {
namespace {

bool isEmpty(const Tree::Node& file) { return file.size() == 0; }

// A later start of the holder's agent takes its session over.
bool succeeds(const Execution& x, const Session& session) {
  const Agent* const agent = x.tree.agent(x.client.agent);
  return agent != nullptr && session.holder.agent == x.client.agent &&
         agent->current == x.client.incarnation;
}

// The client's session file was computed from the content, or the content came from its session.
bool mayAdopt(const Tree::Node& file, const Adoption& adopted) {
  return file.version() == adopted.base ||
         (file.content() != nullptr && file.version().session == adopted.session);
}

std::int32_t runsError(const Execution& x, const Tree::Node& file, const Publish& publish) {
  const Content& content = publish.content;
  Runs foreign;
  for (const ChunkRun& run : content.runs) {
    if (run.session != publish.session) {
      foreign.push_back(run);
    } else if (run.holder != x.client.agent ||
               std::uint64_t{run.first} + run.count > publish.usedChunks) {
      return EINVAL;
    }
  }
  // Of what a list has only its reader knows.
  const Content* const base = file.content();
  if (content.listed) return foreign.empty() ? 0 : EINVAL;
  if (base != nullptr && base->listed) return 0;
  const Runs known = base == nullptr ? Runs{} : setOf(base->runs);
  return contains(known, setOf(foreign)) ? 0 : EINVAL;
}

Answer publishError(const Execution& x, const Tree::Node& file, const Publish& publish) {
  if (file.version() != publish.base) return failed(EIO, Refusal::kOtherVersion);
  const ContentVersion& version = publish.content.version;
  const std::uint32_t last = file.version().session == publish.session ? file.version().counter : 0;
  if (version.session != publish.session || version.counter <= last ||
      publish.usedChunks == kAllChunks || !isPlausible(publish.content) ||
      runsError(x, file, publish) != 0) {
    return failed(EINVAL, Refusal::kBadContent);
  }
  const std::uint64_t most = x.tree.volume().maxBytes;
  const std::uint64_t before = file.size(), after = publish.content.length;
  const std::uint64_t others = x.tree.namedBytes() - before;
  const bool fits = most == 0 || after <= before || (others <= most && after <= most - others);
  return fits ? Answer{} : failed(ENOSPC);
}

// Chunks that the old content named and the new one does not are garbage. Chunks of a session that
// goes on are never garbage; when it ends, endSession() counts them.
void dropReplaced(Execution& x, const Tree::Node& file, const Content& content) {
  const Content* const old = file.content();
  if (old == nullptr) return;
  Garbage garbage{.inode = file.id, .listed = old->listed};
  garbage.lessNamed = old->listed || content.listed;
  garbage.runs =
      garbage.lessNamed ? setOf(old->runs) : without(setOf(old->runs), setOf(content.runs));
  if (!old->listed) {
    const SessionId goesOn = content.version.session;
    std::erase_if(garbage.runs, [&](const ChunkRun& run) { return run.session == goesOn; });
  }
  x.addGarbage(std::move(garbage));
}

// The file's session, if it is this client's and has this id.
const Session* ownSession(const Execution& x, InodeId file, SessionId id) {
  const Session* const session = x.tree.session(file);
  return session != nullptr && session->id == id && session->holder == x.client ? session : nullptr;
}

Answer publish(Execution& x, const Tree::Node& file, const Publish& change) {
  const Session* const session = ownSession(x, file.id, change.session);
  if (session == nullptr) return failed(EIO, Refusal::kSessionOver);
  Answer answer{.inode = file.id, .session = change.session, .content = change.content.version};
  if (file.inode.links == 0) {
    if (change.ends) endSession(x, file.id, *session, change.usedChunks, file.content());
    answer.content = file.version();
    return answer;
  }
  const Answer refused = publishError(x, file, change);
  if (refused.error != 0) return refused;
  dropReplaced(x, file, change.content);
  x.put(Key::of(KeyKind::kContent, file.id), change.content);
  Inode& value = x.edit(file.id);
  value.modifiedNs = change.modifiedNs;
  value.changedNs = x.nowNs;
  if (change.ends) endSession(x, file.id, *session, change.usedChunks, &change.content);
  return answer;
}

}  // namespace

bool grant(Execution& x, InodeId file, Answer& answer) {
  const auto id = x.newId();
  if (!id) return false;
  answer.session = SessionId{*id};
  x.put(Key::of(KeyKind::kSession, file), Session{answer.session, x.client});
  return true;
}

void endSession(Execution& x, InodeId file, const Session& session, std::uint32_t used,
                const Content* named) {
  x.remove(Key::of(KeyKind::kSession, file));
  // A client may say less than what it has published.
  for (const ChunkRun& run : named != nullptr ? named->runs : Runs{}) {
    if (run.session == session.id) used = std::max(used, run.first + run.count);
  }
  if (used == 0) return;
  Garbage garbage{.inode = file, .runs = {{session.id, 0, used, session.holder.agent}}};
  garbage.lessNamed = named != nullptr && named->listed;
  if (named != nullptr && !named->listed) {
    garbage.runs = without(garbage.runs, setOf(named->runs));
  }
  x.addGarbage(std::move(garbage));
}

void dropContent(Execution& x, const Tree::Node& file, SessionId except) {
  const Content& content = *file.content();
  Garbage garbage{.inode = file.id, .listed = content.listed, .runs = setOf(content.runs)};
  std::erase_if(garbage.runs, [&](const ChunkRun& run) {
    return !content.listed && run.session == except && except != kNoSession;
  });
  x.addGarbage(std::move(garbage));
  x.remove(Key::of(KeyKind::kContent, file.id));
}

Answer openSession(Execution& x, const Tree::Node& file, const OpenForWriting& ask) {
  Answer answer = doneWith(file);
  const Session* const held = x.tree.session(file.id);
  if (held != nullptr && held->holder == x.client) {
    answer.session = held->id;
    return answer;
  }
  const bool own = held != nullptr && succeeds(x, *held);
  if (held != nullptr && !own && ask.lapsed != held->id) {
    const bool other = held->holder.agent != x.client.agent;
    if (other && !ask.writes && isEmpty(file)) return answer;
    return busy(*held, Refusal::kHeld);
  }
  if (ask.adopts && !own && !mayAdopt(file, *ask.adopts)) {
    return failed(EIO, Refusal::kOtherVersion);
  }
  if (held != nullptr) endSession(x, file.id, *held, kAllChunks, file.content());
  return grant(x, file.id, answer) ? answer : failed(ENOSPC);
}

Answer publishNamed(Execution& x, const Tree::Node& node, const std::optional<Publish>& change) {
  if (change) {
    if (change->inode != node.id) return failed(EINVAL, Refusal::kBadContent);
    return publish(x, node, *change);
  }
  const Session* const session = x.tree.session(node.id);
  if (session != nullptr && node.content() == nullptr) {
    return busy(*session, Refusal::kUnpublished);
  }
  return doneWith(node);
}

Answer perform(Execution& x, const OpenForWriting& change) {
  const Tree::Node* const node = x.tree.find(change.inode);
  if (node == nullptr) return failed(ESTALE);
  if (change.place) {
    const Tree::NamedEntry* const entry = x.entryAt(*change.place);
    if (entry == nullptr || entry->inode != node->id) return failed(ESTALE);
  }
  if (node->isFolder()) return failed(EISDIR);
  if (node->inode.kind != Kind::kFile) return failed(EINVAL);
  return openSession(x, *node, change);
}

Answer perform(Execution& x, const Publish& change) {
  const Tree::Node* const file = x.tree.find(change.inode);
  return file == nullptr ? failed(ESTALE) : publish(x, *file, change);
}

Answer perform(Execution& x, const EndSession& change) {
  const Tree::Node* const file = x.tree.find(change.inode);
  if (file == nullptr) return failed(ESTALE);
  const Session* const session = ownSession(x, file->id, change.session);
  if (session == nullptr) return failed(EIO, Refusal::kSessionOver);
  endSession(x, file->id, *session, change.usedChunks, file->content());
  return doneWith(*file);
}

}  // namespace hearth::tree
