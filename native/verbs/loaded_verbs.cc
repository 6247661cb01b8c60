#include "verbs/loaded_verbs.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>

namespace hearth {
namespace {

constexpr const char* kInstall = "; install libibverbs1 and ibverbs-providers (rdma-core)";

// The functions that libibverbs exports. verbs.h calls the others through the device's driver.
struct Symbols {
  decltype(&::ibv_get_device_list) getDeviceList = nullptr;
  decltype(&::ibv_free_device_list) freeDeviceList = nullptr;
  decltype(&::ibv_open_device) openDevice = nullptr;
  decltype(&::ibv_close_device) closeDevice = nullptr;
  decltype(&::ibv_query_device) queryDevice = nullptr;
  int (*queryPort)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) = nullptr;
  decltype(&::ibv_query_gid) queryGid = nullptr;
  decltype(&::ibv_get_async_event) getAsyncEvent = nullptr;
  decltype(&::ibv_ack_async_event) ackAsyncEvent = nullptr;
  decltype(&::ibv_alloc_pd) allocPd = nullptr;
  decltype(&::ibv_dealloc_pd) deallocPd = nullptr;
  ibv_mr* (*regMr)(ibv_pd*, void*, std::size_t, int) = nullptr;
  decltype(&::ibv_dereg_mr) deregMr = nullptr;
  decltype(&::ibv_create_comp_channel) createCompChannel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroyCompChannel = nullptr;
  decltype(&::ibv_create_cq) createCq = nullptr;
  decltype(&::ibv_destroy_cq) destroyCq = nullptr;
  decltype(&::ibv_get_cq_event) getCqEvent = nullptr;
  decltype(&::ibv_ack_cq_events) ackCqEvents = nullptr;
  decltype(&::ibv_create_qp) createQp = nullptr;
  decltype(&::ibv_modify_qp) modifyQp = nullptr;
  decltype(&::ibv_destroy_qp) destroyQp = nullptr;
  // Null in older libraries.
  decltype(&::ibv_reg_mr_iova2) regMrIova2 = nullptr;
  decltype(&::_ibv_query_gid_ex) queryGidEx = nullptr;
};

class LoadedVerbs final : public Verbs {
 public:
  LoadedVerbs(void* handle, const Symbols& symbols) : handle_(handle), symbols_(symbols) {}
  ~LoadedVerbs() override { ::dlclose(handle_); }

  ibv_device** getDeviceList(int* count) override { return symbols_.getDeviceList(count); }
  void freeDeviceList(ibv_device** list) override { symbols_.freeDeviceList(list); }
  ibv_context* openDevice(ibv_device* device) override { return symbols_.openDevice(device); }
  int closeDevice(ibv_context* context) override { return symbols_.closeDevice(context); }
  int queryDevice(ibv_context* context, ibv_device_attr* attributes) override {
    return symbols_.queryDevice(context, attributes);
  }
  int queryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) override {
    // As the inline function of verbs.h does: the exported one knows the oldest fields only.
    std::memset(attributes, 0, sizeof(*attributes));
    if (verbs_context* const driver = verbs_get_ctx_op(context, query_port))
      return driver->query_port(context, port, attributes, sizeof(*attributes));
    return symbols_.queryPort(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
  }
  int queryGid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) override {
    return symbols_.queryGid(context, port, index, gid);
  }
  std::optional<ibv_gid_type> gidType(ibv_context* context, std::uint8_t port, int index) override {
    if (symbols_.queryGidEx == nullptr) return std::nullopt;
    ibv_gid_entry entry{};
    if (symbols_.queryGidEx(context, port, static_cast<std::uint32_t>(index), &entry, 0,
                            sizeof(entry)) != 0)
      return std::nullopt;
    return static_cast<ibv_gid_type>(entry.gid_type);
  }
  int getAsyncEvent(ibv_context* context, ibv_async_event* event) override {
    return symbols_.getAsyncEvent(context, event);
  }
  void ackAsyncEvent(ibv_async_event* event) override { symbols_.ackAsyncEvent(event); }

  ibv_pd* allocPd(ibv_context* context) override { return symbols_.allocPd(context); }
  int deallocPd(ibv_pd* pd) override { return symbols_.deallocPd(pd); }
  ibv_mr* regMr(ibv_pd* pd, void* address, std::size_t length, int access) override {
    // Optional access flags (relaxed ordering) exist only there; older libraries refuse them.
    if (symbols_.regMrIova2 != nullptr) {
      return symbols_.regMrIova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                                 static_cast<unsigned>(access));
    }
    return symbols_.regMr(pd, address, length, access & ~IBV_ACCESS_OPTIONAL_RANGE);
  }
  int deregMr(ibv_mr* mr) override { return symbols_.deregMr(mr); }
  ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type) override { return ::ibv_alloc_mw(pd, type); }
  int deallocMw(ibv_mw* mw) override { return ::ibv_dealloc_mw(mw); }

  ibv_comp_channel* createCompChannel(ibv_context* context) override {
    return symbols_.createCompChannel(context);
  }
  int destroyCompChannel(ibv_comp_channel* channel) override {
    return symbols_.destroyCompChannel(channel);
  }
  ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel) override {
    return symbols_.createCq(context, entries, nullptr, channel, 0);
  }
  int destroyCq(ibv_cq* cq) override { return symbols_.destroyCq(cq); }
  int pollCq(ibv_cq* cq, int most, ibv_wc* completions) override {
    return ::ibv_poll_cq(cq, most, completions);
  }
  int reqNotifyCq(ibv_cq* cq) override { return ::ibv_req_notify_cq(cq, 0); }
  int getCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** context) override {
    return symbols_.getCqEvent(channel, cq, context);
  }
  void ackCqEvents(ibv_cq* cq, unsigned events) override { symbols_.ackCqEvents(cq, events); }

  ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attributes) override {
    return symbols_.createQp(pd, attributes);
  }
  int modifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override {
    return symbols_.modifyQp(qp, attributes, mask);
  }
  int destroyQp(ibv_qp* qp) override { return symbols_.destroyQp(qp); }
  int postSend(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) override {
    return ::ibv_post_send(qp, requests, bad);
  }
  int postRecv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) override {
    return ::ibv_post_recv(qp, requests, bad);
  }

 private:
  void* const handle_;
  const Symbols symbols_;
};

// Names the first function that is missing.
class SymbolReader {
 public:
  explicit SymbolReader(void* handle) : handle_(handle) {}
  template <class Function>
  void required(Function*& function, const char* name, const char* version = "IBVERBS_1.1") {
    optional(function, name, version);
    if (function == nullptr && missing_.empty()) missing_ = std::string(name) + "@" + version;
  }
  template <class Function>
  void optional(Function*& function, const char* name, const char* version) {
    function = reinterpret_cast<Function*>(::dlvsym(handle_, name, version));
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* const handle_;
  std::string missing_;
};

Symbols readSymbols(SymbolReader& reader) {
  Symbols symbols;
  reader.required(symbols.getDeviceList, "ibv_get_device_list");
  reader.required(symbols.freeDeviceList, "ibv_free_device_list");
  reader.required(symbols.openDevice, "ibv_open_device");
  reader.required(symbols.closeDevice, "ibv_close_device");
  reader.required(symbols.queryDevice, "ibv_query_device");
  reader.required(symbols.queryPort, "ibv_query_port");
  reader.required(symbols.queryGid, "ibv_query_gid");
  reader.required(symbols.getAsyncEvent, "ibv_get_async_event");
  reader.required(symbols.ackAsyncEvent, "ibv_ack_async_event");
  reader.required(symbols.allocPd, "ibv_alloc_pd");
  reader.required(symbols.deallocPd, "ibv_dealloc_pd");
  reader.required(symbols.regMr, "ibv_reg_mr");
  reader.required(symbols.deregMr, "ibv_dereg_mr");
  reader.required(symbols.createCompChannel, "ibv_create_comp_channel", "IBVERBS_1.0");
  reader.required(symbols.destroyCompChannel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
  reader.required(symbols.createCq, "ibv_create_cq");
  reader.required(symbols.destroyCq, "ibv_destroy_cq");
  reader.required(symbols.getCqEvent, "ibv_get_cq_event");
  reader.required(symbols.ackCqEvents, "ibv_ack_cq_events");
  reader.required(symbols.createQp, "ibv_create_qp");
  reader.required(symbols.modifyQp, "ibv_modify_qp");
  reader.required(symbols.destroyQp, "ibv_destroy_qp");
  reader.optional(symbols.regMrIova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  reader.optional(symbols.queryGidEx, "_ibv_query_gid_ex", "IBVERBS_1.11");
  return symbols;
}

}  // namespace

Result<std::shared_ptr<Verbs>> loadVerbs(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    const std::string message = reason == nullptr ? library + " cannot be loaded" : reason;
    const bool absent = message.find("cannot open shared object file: No such") != message.npos;
    return Error{absent ? ErrorCode::kNotFound : ErrorCode::kUnsupported, message + kInstall};
  }
  SymbolReader reader(handle);
  const Symbols symbols = readSymbols(reader);
  if (!reader.missing().empty()) {
    ::dlclose(handle);
    return Error{ErrorCode::kUnsupported,
                 library + " does not export " + reader.missing() + kInstall};
  }
  return std::shared_ptr<Verbs>(std::make_shared<LoadedVerbs>(handle, symbols));
}

}  // namespace hearth
