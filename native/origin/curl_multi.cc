#include "origin/curl_multi.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace hearth {
namespace {

int selectEvents(std::int32_t events) {
  if (events < 0) return CURL_CSELECT_ERR;
  int select = 0;
  if (events & (POLLIN | POLLHUP)) select |= CURL_CSELECT_IN;
  if (events & POLLOUT) select |= CURL_CSELECT_OUT;
  if (events & (POLLERR | POLLNVAL)) select |= CURL_CSELECT_ERR;
  return select;
}

}  // namespace

Result<std::unique_ptr<CurlMulti>> CurlMulti::create(Reactor& reactor, std::size_t connections) {
  static std::once_flag once;
  static CURLcode initialised = CURLE_OK;
  std::call_once(once, [] { initialised = curl_global_init(CURL_GLOBAL_DEFAULT); });
  if (initialised != CURLE_OK) {
    return Error{ErrorCode::kInternal,
                 std::string("libcurl cannot start: ") + curl_easy_strerror(initialised)};
  }
  std::unique_ptr<CurlMulti> multi(new CurlMulti(reactor));
  multi->handle_ = curl_multi_init();
  if (multi->handle_ == nullptr)
    return Error{ErrorCode::kInternal, "libcurl gives no multi handle"};
  const long bound = static_cast<long>(connections);
  curl_multi_setopt(multi->handle_, CURLMOPT_SOCKETFUNCTION, &CurlMulti::socketChanged);
  curl_multi_setopt(multi->handle_, CURLMOPT_SOCKETDATA, multi.get());
  curl_multi_setopt(multi->handle_, CURLMOPT_TIMERFUNCTION, &CurlMulti::timeoutChanged);
  curl_multi_setopt(multi->handle_, CURLMOPT_TIMERDATA, multi.get());
  curl_multi_setopt(multi->handle_, CURLMOPT_MAX_TOTAL_CONNECTIONS, bound);
  curl_multi_setopt(multi->handle_, CURLMOPT_MAXCONNECTS, bound);
  // One request a connection: see HttpExchange for why not HTTP/2.
  curl_multi_setopt(multi->handle_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  return multi;
}

CurlMulti::~CurlMulti() {
  if (handle_ != nullptr) curl_multi_cleanup(handle_);
}

Task<void> CurlMulti::close() {
  // Closing connections calls back into closeSocket() and socketChanged().
  if (handle_ != nullptr) curl_multi_cleanup(std::exchange(handle_, nullptr));
  timer_.cancel();
  while (!sockets_.empty()) forget(sockets_.begin()->first);
  co_await watchers_.close();
}

void CurlMulti::start(Transfer& transfer) {
  if (inside_) {
    putOff_.push_back(&transfer);
  } else {
    add(transfer);
  }
}

void CurlMulti::add(Transfer& transfer) {
  curl_easy_setopt(transfer.easy, CURLOPT_PRIVATE, &transfer);
  const CURLMcode code = curl_multi_add_handle(handle_, transfer.easy);
  transfer.added = code == CURLM_OK;
  if (transfer.added) return;
  transfer.result = CURLE_FAILED_INIT;
  transfer.ended.set();
}

void CurlMulti::finish(Transfer& transfer) {
  std::erase(putOff_, &transfer);
  if (std::exchange(transfer.added, false)) curl_multi_remove_handle(handle_, transfer.easy);
}

template <class Call>
void CurlMulti::enterLibcurl(Call call) {
  inside_ = true;
  call();
  inside_ = false;
  collectEnded();
  for (Transfer* const transfer : std::exchange(putOff_, {})) add(*transfer);
}

void CurlMulti::act(curl_socket_t fd, int events) {
  if (handle_ == nullptr) return;
  int running = 0;
  enterLibcurl([&] { curl_multi_socket_action(handle_, fd, events, &running); });
}

void CurlMulti::resume(Transfer& transfer) {
  if (!transfer.added) return;
  enterLibcurl([&] { curl_easy_pause(transfer.easy, CURLPAUSE_CONT); });
}

void CurlMulti::collectEnded() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(handle_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->result = message->data.result;  // removing the handle frees the message
    finish(*transfer);
    transfer->ended.set();
  }
}

int CurlMulti::timeoutChanged(CURLM* /*multi*/, long milliseconds, void* self) {
  auto& multi = *static_cast<CurlMulti*>(self);
  if (milliseconds < 0) {
    multi.timer_.cancel();
  } else {
    const auto when = Clock::now() + std::chrono::milliseconds(milliseconds);
    multi.timer_.start(when, [&multi] { multi.act(CURL_SOCKET_TIMEOUT, 0); });
  }
  return 0;
}

int CurlMulti::socketChanged(CURL* /*easy*/, curl_socket_t fd, int what, void* self,
                             void* /*socket*/) {
  auto& multi = *static_cast<CurlMulti*>(self);
  if (what == CURL_POLL_REMOVE) {
    multi.forget(fd);
    return 0;
  }
  std::shared_ptr<Socket>& found = multi.sockets_[fd];
  if (found == nullptr) found = std::make_shared<Socket>(Socket{.fd = fd});
  const std::shared_ptr<Socket> socket = found;
  multi.want(socket, false, what == CURL_POLL_IN || what == CURL_POLL_INOUT);
  multi.want(socket, true, what == CURL_POLL_OUT || what == CURL_POLL_INOUT);
  return 0;
}

int CurlMulti::closeSocket(void* multi, curl_socket_t fd) {
  static_cast<CurlMulti*>(multi)->forget(fd);
  return ::close(fd);
}

void CurlMulti::forget(curl_socket_t fd) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return;
  const std::shared_ptr<Socket> socket = found->second;
  sockets_.erase(found);
  want(socket, false, false);
  want(socket, true, false);
}

void CurlMulti::want(const std::shared_ptr<Socket>& socket, bool writing, bool wanted) {
  Direction& direction = writing ? socket->writing : socket->reading;
  if (direction.wanted == wanted) return;
  direction.wanted = wanted;
  if (!wanted) {
    if (direction.pending != nullptr) reactor_.cancel(*direction.pending);
  } else if (!direction.running) {
    direction.running = true;
    watchers_.spawn(watch(*this, socket, writing));
  }
  // Else the watcher is about to see its cancelled poll end and polls again.
}

Task<void> CurlMulti::watch(CurlMulti& multi, std::shared_ptr<Socket> socket, bool writing) {
  Direction& direction = writing ? socket->writing : socket->reading;
  while (direction.wanted) {
    auto poll = multi.reactor_.poll(socket->fd, writing ? POLLOUT : POLLIN);
    direction.pending = &poll.operation;
    const std::int32_t events = co_await poll;
    direction.pending = nullptr;
    // Given up meanwhile: the descriptor may belong to someone else by now.
    if (direction.wanted && events != -ECANCELED) {
      multi.act(socket->fd, selectEvents(events));
    }
  }
  direction.running = false;
}

}  // namespace hearth
