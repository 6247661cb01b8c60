#include "verbs/work_chain.h"

#include <algorithm>

namespace hearth {
namespace {

bool isInline(const QueuePair& pair, const Transfer& transfer) {
  return transfer.kind == Transfer::Kind::kSend && !transfer.local.empty() &&
         transfer.local.size() <= pair.inlineBytes();
}

bool isKnown(const RdmaDevice& device, const MemoryVector& memory) {
  return std::ranges::all_of(memory.slices(), [&](const MemorySlice& slice) {
    return device.registeredAs(*slice.region) != nullptr;
  });
}

// A message that is small enough to be sent from any memory of this process.
bool isSmall(const QueuePair& pair, const Transfer& transfer) {
  return transfer.kind == Transfer::Kind::kSend && transfer.local.isHost() &&
         transfer.local.size() <= pair.options().unregisteredBytes;
}

}  // namespace

Result<std::size_t> WorkChain::requestsOf(const QueuePair& pair, const Transfer& transfer) {
  const std::span<const MemorySlice> slices = transfer.local.slices();
  const RdmaDevice& device = *pair.device();
  if (transfer.kind == Transfer::Kind::kOpen || transfer.kind == Transfer::Kind::kClose)
    return std::size_t{1};
  if (!isKnown(device, transfer.local)) {
    if (!isSmall(pair, transfer))
      return Error{ErrorCode::kUnsupported, "the RDMA device does not know this memory"};
    // A copy is one piece.
    if (!isInline(pair, transfer)) return std::size_t{1};
  }
  const std::size_t pieces = device.limits().pieces;
  const std::size_t count = std::max<std::size_t>(1, (slices.size() + pieces - 1) / pieces);
  const bool isSplitMessage = transfer.kind == Transfer::Kind::kSend && count > 1;
  if (transfer.local.size() > device.limits().messageBytes || isSplitMessage ||
      count >= pair.options().sendRequests) {
    return Error{ErrorCode::kInvalidArgument, "the transfer is too large for the RDMA endpoint"};
  }
  return count;
}

void WorkChain::add(std::unique_ptr<Transfer> transfer, std::size_t count) {
  Transfer& of = *transfer;
  transfers.push_back(std::move(transfer));
  const bool inlined = isInline(pair_, of);
  if (!inlined && !isKnown(*pair_.device(), of.local)) of.local = pair_.copyOf(of.local);
  const std::span<const MemorySlice> slices = of.local.slices();
  const std::size_t most = pair_.device()->limits().pieces;
  std::uint64_t remote = of.remoteAddress;
  for (std::size_t at = 0; at < count; ++at) {
    Entry entry;
    entry.firstPiece = pieces_.size();
    entry.transfer = transfers.size() - 1;
    entry.last = at + 1 == count;
    const auto part = slices.subspan(std::min(at * most, slices.size()));
    std::uint64_t bytes = 0;
    for (const MemorySlice& slice : part.first(std::min(most, part.size()))) {
      bytes += slice.size;
      addPiece(slice, inlined);
    }
    entry.request.num_sge = static_cast<int>(pieces_.size() - entry.firstPiece);
    describe(entry, of, remote);
    if (inlined) entry.request.send_flags |= IBV_SEND_INLINE;
    remote += bytes;
    entries.push_back(entry);
  }
}

void WorkChain::link(std::uint64_t& nextSequence, std::uint32_t& sinceSignal) {
  for (std::size_t at = 0; at < entries.size(); ++at) {
    ibv_send_wr& request = entries[at].request;
    const bool lastOfAll = at + 1 == entries.size();
    request.next = lastOfAll ? nullptr : &entries[at + 1].request;
    request.sg_list = pieces_.data() + entries[at].firstPiece;
    request.wr_id = nextSequence++;
    if (++sinceSignal >= pair_.options().signalEvery || lastOfAll) {
      sinceSignal = 0;
      request.send_flags |= IBV_SEND_SIGNALED;
    }
  }
}

std::optional<std::size_t> WorkChain::indexOf(const ibv_send_wr* request, std::size_t from) const {
  for (std::size_t at = from; at < entries.size(); ++at)
    if (&entries[at].request == request) return at;
  return std::nullopt;
}

void WorkChain::addPiece(const MemorySlice& slice, bool inlined) {
  const ibv_mr* const known = inlined ? nullptr : pair_.device()->registeredAs(*slice.region);
  pieces_.push_back({.addr = slice.region->address() + slice.offset,
                     .length = static_cast<std::uint32_t>(slice.size),
                     .lkey = known == nullptr ? 0 : known->lkey});
}

void WorkChain::describe(Entry& entry, const Transfer& of, std::uint64_t remote) const {
  ibv_send_wr& request = entry.request;
  switch (of.kind) {
    case Transfer::Kind::kWrite:
      request.opcode = IBV_WR_RDMA_WRITE;
      request.wr.rdma = {.remote_addr = remote, .rkey = of.remoteKey};
      if (entry.last && of.immediate) {
        request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        request.imm_data = htobe32(*of.immediate);
      }
      break;
    case Transfer::Kind::kSend:
      request.opcode = of.immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
      if (of.immediate) request.imm_data = htobe32(*of.immediate);
      break;
    case Transfer::Kind::kOpen: {
      const MemorySlice& memory = of.window->memory;
      request.opcode = IBV_WR_BIND_MW;
      request.bind_mw.mw = of.window->window;
      request.bind_mw.rkey = of.window->key;
      request.bind_mw.bind_info = {.mr = pair_.device()->registeredAs(*memory.region),
                                   .addr = memory.region->address() + memory.offset,
                                   .length = memory.size,
                                   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
      break;
    }
    case Transfer::Kind::kClose:
      request.opcode = IBV_WR_LOCAL_INV;
      request.invalidate_rkey = of.window->key;
      break;
  }
}

}  // namespace hearth
