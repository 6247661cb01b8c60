/** Programs, ports, folders, certificates and origins for tests, benchmarks and `make run`. */
export { Authority, type KeyPair } from './authority.ts';
export { root } from './checkout.ts';
export { Chromium } from './chromium.ts';
export { must, type Outcome, ok, output, run, start } from './command.ts';
export { DaemonProcess } from './daemon_process.ts';
export { elapse, steady } from './elapse.ts';
export { freePort, freePorts } from './free_port.ts';
export { FrozenFuse } from './frozen_fuse.ts';
export { mountPointsBelow } from './mounts.ts';
export { needsMounts, needsPrograms, needsRoot, skip, unlessUnavailable } from './needs.ts';
export { RunningClock } from './running_clock.ts';
export { bytesOf, MiB, sha256, writeSample } from './sample.ts';
export { TemporaryFolder } from './temporary_folder.ts';
export { settle, TestClock } from './test_clock.ts';
export { findTool, ToolUnavailable, tool, tools } from './tool.ts';
export { type Condition, until } from './until.ts';
