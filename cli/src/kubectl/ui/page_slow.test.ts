import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@hearth/common';
import { Chromium, root, skip } from '@hearth/common/testing';
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
  let chromium: Chromium;
  const pictures = join(root, 'build/ui');

  before(async function () {
    if (!(await Chromium.isInstalled())) skip(this, 'chromium is not installed');
    mkdirSync(pictures, { recursive: true });
    chromium = new Chromium();
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
    await chromium?.remove();
  });

  /** The policy of the page allows its own style. */
  const keepsItsPolicy = ({ log }: { log: string }) => assert.doesNotMatch(log, /Content.Security.Policy/i);

  for (const [name, path, parts] of [
    ['overview', '', ['4.0 GiB on node1', '324.0 GiB', '<meter min="0" max="100" value="81">']],
    ['pod', 'pods/team/web-0', ['Pod team/web-0', 'at the latest', '>fuse<']],
  ] as const) {
    it(`shows the ${name}`, async () => {
      const dom = await chromium.dom(`${ui.url}${path}`);
      keepsItsPolicy(dom);
      for (const part of parts) assert.ok(dom.html.includes(part), `${part}: ${dom.html}`);
      const file = join(pictures, `${name}.png`);
      keepsItsPolicy(await chromium.screenshot(`${ui.url}${path}`, file, { width: 1180, height: 760 }));
      assert.equal(readFileSync(file).subarray(0, 8).toString('hex'), pngSignature);
    });
  }
});
