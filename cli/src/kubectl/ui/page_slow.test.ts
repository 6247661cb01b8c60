import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@hearth/common';
import { root, run, skip, TemporaryFolder } from '@hearth/common/testing';
import type { Terminal } from '../../terminal.ts';
import { ClusterSession } from '../cluster_session.ts';
import { FakeApiServer } from '../testing/fake_api_server.ts';
import { sampleCluster } from '../testing/sample_cluster.ts';
import { UiServer } from './ui_server.ts';

const pngSignature = '89504e470d0a1a0a';

/** Leaves pictures in build/ui. */
describe('page of kubectl hearth ui in Chromium', () => {
  let api: FakeApiServer;
  let ui: UiServer;
  let profile: TemporaryFolder;
  const pictures = join(root, 'build/ui');

  before(async function () {
    if ((await run('chromium', ['--version'])).code !== 0) skip(this, 'chromium is not installed');
    mkdirSync(pictures, { recursive: true });
    profile = new TemporaryFolder('chromium');
    api = await FakeApiServer.start(sampleCluster());
    const terminal = {
      environment: { KUBECONFIG: api.kubeconfig },
      clock: { ...systemClock, date: () => new Date('2026-01-01T00:01:00Z') },
      interrupt: new AbortController().signal,
    } as unknown as Terminal;
    ui = await UiServer.start(new ClusterSession(terminal, {}), { port: 0, token: 'a-token', refreshSeconds: 600 });
  });
  after(async () => {
    await ui?.[Symbol.asyncDispose]();
    await api?.[Symbol.asyncDispose]();
    await profile?.remove();
  });

  async function chromium(...words: string[]) {
    const own = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars'];
    const folder = [`--user-data-dir=${profile.path}`, '--no-first-run', '--enable-logging=stderr'];
    const outcome = await run('chromium', [...own, ...folder, ...words], { timeoutMs: 300_000 });
    assert.equal(outcome.code, 0, outcome.stderr);
    // The policy of the page allows its own style.
    assert.doesNotMatch(outcome.stderr, /Content.Security.Policy/i);
    return outcome.stdout;
  }

  for (const [name, path, parts] of [
    ['overview', '', ['4.0 GiB on node1', '324.0 GiB', '<meter min="0" max="100" value="81">']],
    ['pod', 'pods/team/web-0', ['Pod team/web-0', 'at the latest', '>fuse<']],
  ] as const) {
    it(`shows the ${name}`, async () => {
      const dom = await chromium('--dump-dom', `${ui.url}${path}`);
      for (const part of parts) assert.ok(dom.includes(part), `${part}: ${dom}`);
      const file = join(pictures, `${name}.png`);
      await chromium(`--screenshot=${file}`, '--window-size=1180,760', `${ui.url}${path}`);
      assert.equal(readFileSync(file).subarray(0, 8).toString('hex'), pngSignature);
    });
  }
});
