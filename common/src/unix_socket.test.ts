import assert from 'node:assert/strict';
import { once } from 'node:events';
import { linkSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { knock } from './unix_socket.ts';

describe('knocking at a Unix socket', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-knock-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('tells if a process answers, and why not', async () => {
    const [path, stale] = [join(folder, 'socket'), join(folder, 'stale')];
    assert.equal(await knock(path, 300_000), 'ENOENT');
    const listener = createServer().listen(path);
    await once(listener, 'listening');
    assert.equal(await knock(path, 300_000), undefined);
    // As after SIGKILL: the listener is gone, its socket file remains.
    linkSync(path, stale);
    await new Promise((resolve) => listener.close(resolve));
    assert.equal(await knock(stale, 300_000), 'ECONNREFUSED');
  });
});
