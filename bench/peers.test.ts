import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { isInstalled } from './peers.ts';
import { processorSeconds } from './processor_time.ts';

describe('programs beside ours', () => {
  it('are looked for in the path, as what can be run', () => {
    const here = dirname(process.execPath);
    assert.ok(isInstalled('node', `/nowhere:${here}`));
    assert.ok(!isInstalled('node', '/nowhere'));
    assert.ok(!isInstalled('peers.test.ts', import.meta.dirname), 'a file that is no program');
  });

  it('have used as much of a processor as the kernel counts', () => {
    const { user, system } = process.cpuUsage();
    const counted = processorSeconds(process.pid);
    // The kernel counts ticks, and this process goes on.
    assert.ok(Math.abs(counted - (user + system) / 1e6) < 0.2, `${counted} s`);
  });
});
