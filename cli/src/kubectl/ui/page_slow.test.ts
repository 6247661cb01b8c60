import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Chromium, root, skip } from '@hearth/common/testing';
import { ServedPage } from './testing/served_page.ts';

const pngSignature = '89504e470d0a1a0a';

/** Writes screenshots to build/ui. */
describe('page of kubectl hearth ui in Chromium', () => {
  let page: ServedPage;
  let chromium: Chromium;
  const pictures = join(root, 'build/ui');

  before(async function () {
    if (!(await Chromium.isInstalled())) skip(this, 'chromium is not installed');
    mkdirSync(pictures, { recursive: true });
    chromium = new Chromium();
    page = await ServedPage.start(600);
  });
  after(async () => {
    await page?.[Symbol.asyncDispose]();
    await chromium?.remove();
  });

  /** The page's policy permits its own style. */
  const keepsItsPolicy = ({ log }: { log: string }) => assert.doesNotMatch(log, /Content.Security.Policy/i);

  for (const [name, path, parts] of [
    ['overview', '', ['4.0 GiB on node1', '324.0 GiB', '<meter min="0" max="100" value="81">']],
    ['pod', 'pods/team/web-0', ['Pod team/web-0', 'at the latest', '>fuse<']],
  ] as const) {
    it(`shows the ${name}`, async () => {
      const url = `${page.ui.url}${path}`;
      const dom = await chromium.dom(url);
      keepsItsPolicy(dom);
      for (const part of parts) assert.ok(dom.html.includes(part), `${part}: ${dom.html}`);
      const file = join(pictures, `${name}.png`);
      keepsItsPolicy(await chromium.screenshot(url, file, { width: 1180, height: 760 }));
      assert.equal(readFileSync(file).subarray(0, 8).toString('hex'), pngSignature);
    });
  }
});
