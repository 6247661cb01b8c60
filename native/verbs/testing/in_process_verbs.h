// For tests: an RDMA fabric inside the process, behind the same table of functions as libibverbs.
// It checks keys, bounds, rights and states as devices do, and fails on demand. A Fabric joins the
// hosts; each InProcessVerbs is the library as one host sees it.
//
// Work is done by the thread that posts it, at once, unless it is held: schedules are repeatable.
// Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verbs/verbs.h"

namespace hearth::testing_verbs {

struct Host;

struct PortOptions {
  std::string name = "fake0";
  std::uint8_t address = 1;  // the last byte of ::ffff:10.0.0.x
  ibv_mtu mtu = IBV_MTU_4096;
  bool active = true;
  bool hasWindows = true;
  int sendRequests = 64;
  int pieces = 4;
  std::uint32_t inlineBytes = 64;
  std::uint64_t lockableBytes = ~std::uint64_t{0};
  int openError = 0;  // errno of ibv_open_device
};

class Fabric {
 public:
  Fabric();
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The fate of a request that a queue pair is about to execute.
  struct Verdict {
    ibv_wc_status status = IBV_WC_SUCCESS;
    bool held = false;  // it and those behind it wait for resume()
  };
  using Judge = std::function<Verdict(std::uint32_t queuePair, ibv_wr_opcode opcode)>;
  // The errno with which ibv_post_send refuses a request; 0: it takes it.
  using PostJudge = std::function<int(std::uint32_t queuePair, ibv_wr_opcode opcode)>;
  // Called with the fabric locked.
  void judgeBy(Judge judge);
  void judgePostsBy(PostJudge judge);

  // Executes what was held, as the judge then says.
  void resume();
  // Sends for which no receive was posted have been tried often enough.
  void endReceiverRetries();
  // No packet passes to or from that port any more, or does again; its host hears of it.
  void setLink(std::uint8_t address, bool up);
  // The device of that port is gone: it executes nothing, flushes nothing and takes nothing.
  void remove(std::uint8_t address);
  // A completion that no request has caused.
  void forgeCompletion(std::uint32_t queuePair, std::uint64_t id);

  // Work requests that queue pairs have executed, and completions that told of such: receives are
  // in neither.
  struct Counts {
    std::uint64_t requests = 0, completions = 0;
  };
  [[nodiscard]] Counts counts() const;
  // Objects that were made and not destroyed.
  [[nodiscard]] std::size_t objects() const;

 private:
  friend class InProcessVerbs;
  friend struct Host;
  struct State;
  std::unique_ptr<State> state_;
};

class InProcessVerbs final : public Verbs {
 public:
  // `fabric` must remain live while this object is used.
  InProcessVerbs(Fabric& fabric, std::vector<PortOptions> ports);
  ~InProcessVerbs() override;

  ibv_device** getDeviceList(int* count) override;
  void freeDeviceList(ibv_device** list) override;
  ibv_context* openDevice(ibv_device* device) override;
  int closeDevice(ibv_context* context) override;
  int queryDevice(ibv_context* context, ibv_device_attr* attributes) override;
  int queryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) override;
  int queryGid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) override;
  std::optional<ibv_gid_type> gidType(ibv_context* context, std::uint8_t port, int index) override;
  int getAsyncEvent(ibv_context* context, ibv_async_event* event) override;
  void ackAsyncEvent(ibv_async_event* event) override;
  ibv_pd* allocPd(ibv_context* context) override;
  int deallocPd(ibv_pd* pd) override;
  ibv_mr* regMr(ibv_pd* pd, void* address, std::size_t length, int access) override;
  int deregMr(ibv_mr* mr) override;
  ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type) override;
  int deallocMw(ibv_mw* mw) override;
  ibv_comp_channel* createCompChannel(ibv_context* context) override;
  int destroyCompChannel(ibv_comp_channel* channel) override;
  ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel) override;
  int destroyCq(ibv_cq* cq) override;
  int pollCq(ibv_cq* cq, int most, ibv_wc* completions) override;
  int reqNotifyCq(ibv_cq* cq) override;
  int getCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** context) override;
  void ackCqEvents(ibv_cq* cq, unsigned events) override;
  ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attributes) override;
  int modifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override;
  int destroyQp(ibv_qp* qp) override;
  int postSend(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) override;
  int postRecv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) override;

 private:
  Fabric& fabric_;
  std::vector<std::unique_ptr<Host>> ports_;  // a device each
};

}  // namespace hearth::testing_verbs
