// The verbs of rdma-core that this engine uses, as a table of functions with two implementations:
// libibverbs, loaded at run time (loaded_verbs.h), and in tests a fabric inside the process
// (testing/in_process_verbs.h). Arguments and results are those of the functions of rdma-core with
// the same names (man 3 ibv_post_send): a pointer is null and errno is set on failure, an int is an
// errno value or -1 with errno.
//
// Any thread may call any function; calls on one queue pair or one completion queue come from one
// thread at a time. The implementation outlives every object that it made.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

namespace hearth {

class Verbs {
 public:
  virtual ~Verbs() = default;

  virtual ibv_device** getDeviceList(int* count) = 0;
  virtual void freeDeviceList(ibv_device** list) = 0;
  virtual ibv_context* openDevice(ibv_device* device) = 0;
  virtual int closeDevice(ibv_context* context) = 0;
  virtual int queryDevice(ibv_context* context, ibv_device_attr* attributes) = 0;
  virtual int queryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) = 0;
  virtual int queryGid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) = 0;
  // Nothing when the library is too old to tell: the caller reads sysfs.
  virtual std::optional<ibv_gid_type> gidType(ibv_context* context, std::uint8_t port,
                                              int index) = 0;
  virtual int getAsyncEvent(ibv_context* context, ibv_async_event* event) = 0;
  virtual void ackAsyncEvent(ibv_async_event* event) = 0;

  virtual ibv_pd* allocPd(ibv_context* context) = 0;
  virtual int deallocPd(ibv_pd* pd) = 0;
  virtual ibv_mr* regMr(ibv_pd* pd, void* address, std::size_t length, int access) = 0;
  virtual int deregMr(ibv_mr* mr) = 0;
  virtual ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type) = 0;
  virtual int deallocMw(ibv_mw* mw) = 0;

  virtual ibv_comp_channel* createCompChannel(ibv_context* context) = 0;
  virtual int destroyCompChannel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel) = 0;
  virtual int destroyCq(ibv_cq* cq) = 0;
  virtual int pollCq(ibv_cq* cq, int most, ibv_wc* completions) = 0;
  virtual int reqNotifyCq(ibv_cq* cq) = 0;
  virtual int getCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** context) = 0;
  virtual void ackCqEvents(ibv_cq* cq, unsigned events) = 0;

  virtual ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attributes) = 0;
  virtual int modifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) = 0;
  virtual int destroyQp(ibv_qp* qp) = 0;
  virtual int postSend(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) = 0;
  virtual int postRecv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) = 0;
};

}  // namespace hearth
