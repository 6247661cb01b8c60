#include "engine/client_datasets.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

ErrorCode codeOf(const ClientDatasets& datasets, std::string_view path) {
  Capability client;
  client.rights = static_cast<std::uint32_t>(CapabilityRight::kRead);
  client.datasets = {"llm"};
  return datasets.resolve(client, CapabilityRight::kRead, path).code();
}

TEST(ClientDatasets, ClientsWaitForAnAgentThatDoesNotKnowItsDatasets) {
  const ClientDatasets datasets;
  EXPECT_EQ(codeOf(datasets, "/dataset/llm/model"), ErrorCode::kUnavailable);
}

TEST(ClientDatasets, AnAgentWithoutDatasetsSaysSo) {
  ClientDatasets datasets;
  datasets.name({});
  EXPECT_EQ(codeOf(datasets, "/dataset/llm/model"), ErrorCode::kNotFound);
}

TEST(ClientDatasets, ClientsWaitForADatasetWhoseManifestIsOnItsWay) {
  ClientDatasets datasets;
  datasets.name({}, {"llm", "other"});
  EXPECT_EQ(codeOf(datasets, "/dataset/llm/model"), ErrorCode::kUnavailable);
  EXPECT_EQ(codeOf(datasets, "/dataset/other/model"), ErrorCode::kPermissionDenied);
  datasets.name({});
  EXPECT_EQ(codeOf(datasets, "/dataset/llm/model"), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace hearth
