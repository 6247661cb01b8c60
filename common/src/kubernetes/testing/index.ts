/** For tests of controllers: a test clock, objects in memory, and a failing network. */

export { settle, TestClock } from '../../testing/test_clock.ts';
export { CutProxy } from './cut_proxy.ts';
export { MemoryApi } from './memory_api.ts';
