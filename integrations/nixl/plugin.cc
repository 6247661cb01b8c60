// libplugin_HEARTH.so: the two functions that libnixl looks for.
#include "hearth_engine.h"

namespace {

using hearth::nixl::BackendEngine;
using hearth::nixl::HearthEngine;
using hearth::nixl::InitParameters;
using hearth::nixl::Plugin;

Plugin plugin{
    .apiVersion = hearth::nixl::kPluginApiVersion,
    .create = [](const InitParameters* init) -> BackendEngine* { return new HearthEngine(*init); },
    .destroy = [](BackendEngine* engine) { delete engine; },
    .name = [] { return "HEARTH"; },
    .version = [] { return "0.1.0"; },
    .options = hearth::nixl::defaultParameters,
    .memoryKinds = HearthEngine::kinds};

}  // namespace

#define HEARTH_NIXL_EXPORT extern "C" __attribute__((visibility("default")))

HEARTH_NIXL_EXPORT Plugin* nixl_plugin_init() { return &plugin; }
HEARTH_NIXL_EXPORT void nixl_plugin_fini() {}
