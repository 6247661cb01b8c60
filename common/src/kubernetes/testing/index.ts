/** For tests of controllers: a clock that stands still, objects in memory, and a network that fails. */

export { settle, TestClock } from '../../testing/test_clock.ts';
export { CutProxy } from './cut_proxy.ts';
export { MemoryApi } from './memory_api.ts';
