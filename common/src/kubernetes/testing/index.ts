/** For tests of controllers: a clock that stands still, and objects in memory. */
export { MemoryApi } from './memory_api.ts';
export { settle, TestClock } from './test_clock.ts';
