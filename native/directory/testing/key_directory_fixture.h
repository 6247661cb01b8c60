// A key's directory, at a time that stands still until a test moves it.
#pragma once

#include <gtest/gtest.h>

#include "directory/key_directory.h"

namespace hearth::directory_testing {

constexpr ChunkMask kAll = 0xffff;

struct KeyDirectoryFixture : testing::Test {
  KeyDirectory::TimePoint now{};
  KeyDirectory directory;
};

}  // namespace hearth::directory_testing
