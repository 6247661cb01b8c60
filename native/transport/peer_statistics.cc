#include <algorithm>

#include "transport/peer_transport.h"

namespace hearth {

void PeerStatistics::add(const PeerStatistics& other) {
  node = other.node;
  connected = connected || other.connected;
  streams += other.streams;
  bytesReceived += other.bytesReceived;
  bytesSent += other.bytesSent;
  requests += other.requests;
  hedged += other.hedged;
  paused += other.paused;
  if (!other.error.empty()) error = other.error;
  wireVersion = std::max(wireVersion, other.wireVersion);
  featuresOff |= other.featuresOff;
  rdmaRequests += other.rdmaRequests;
  rdmaBytesReceived += other.rdmaBytesReceived;
  rdmaBytesSent += other.rdmaBytesSent;
  rdmaFailures += other.rdmaFailures;
  if (!other.rdma.empty()) rdma = other.rdma;
  if (!other.rdmaError.empty()) rdmaError = other.rdmaError;
}

}  // namespace hearth
