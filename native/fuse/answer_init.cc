#include "fuse/answer_init.h"

#include <cerrno>
#include <variant>

namespace hearth {

Result<std::optional<FuseNegotiated>> answerInit(
    FuseDevice& device, const FuseRequest& request, std::uint64_t wanted,
    const std::function<Status(const std::string& state)>& saveState) {
  const auto answered = negotiate(std::get<fuse_init_in>(request.arguments), wanted);
  if (!answered) {
    device.replyError(request.unique, EPROTO);
    return answered.error();
  }
  std::optional<FuseNegotiated> negotiated;
  if (answered->out.minor != 0) {
    negotiated = answered->negotiated;
    if (saveState) {
      if (Status saved = saveState(encodeNegotiated(*negotiated)); !saved) {
        return saved.error().within("keep what FUSE_INIT negotiated");
      }
    }
  }
  device.replyWith(request.unique, answered->out);
  return negotiated;
}

}  // namespace hearth
