import assert from 'node:assert/strict';
import { request } from 'node:http';
import { html } from './html.ts';
import { ServedPage } from './testing/served_page.ts';

interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
}

describe('page of kubectl hearth ui', () => {
  let page: ServedPage;
  beforeEach(async () => {
    page = await ServedPage.start(5);
  });
  afterEach(() => page[Symbol.asyncDispose]());

  const ask = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    new Promise<Answer>((resolve, reject) => {
      const options = { host: '127.0.0.1', port: page.ui.port, path, headers, method, agent: false as const };
      const outgoing = request(options, async (response) => {
        let text = '';
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      });
      outgoing.on('error', reject).end();
    });

  it('shows nodes, Datasets, preloads and waiting pods', async () => {
    const { status, headers, text } = await ask('/a-token/');
    assert.equal(status, 200);
    for (const part of ['node1', 'value="81"', '8.0 GiB', 'about 41 s', '4.0 GiB on node1', 'href="pods/team/web-0"']) {
      assert.ok(text.includes(part), part);
    }
    assert.match(String(headers['content-security-policy']), /^default-src 'none'; style-src 'sha256-/);
    assert.equal(headers['referrer-policy'], 'no-referrer');
  });

  it('explains a pod', async () => {
    const { status, text } = await ask('/a-token/pods/team/web-0');
    assert.equal(status, 200);
    assert.match(text, /Waits for 4\.0 GiB on node1\./);
    assert.match(text, /Its gate opens in 9 min 00 s at the latest\./);
    assert.equal((await ask('/a-token/pods/team/other')).status, 404);
    assert.equal((await ask('/a-token/pods/team/%ff')).status, 404);
    assert.equal((await ask('/a-token/elsewhere')).status, 404);
  });

  it('refuses foreign host names, unknown pages, and addresses without the token', async () => {
    const here = `127.0.0.1:${page.ui.port}`;
    for (const host of [
      'evil.example.com',
      `evil.example.com:${page.ui.port}`,
      '127.0.0.1',
      `127.0.0.1.evil.example.com:${page.ui.port}`,
    ]) {
      const { status, text } = await ask('/a-token/', { host });
      assert.equal(status, 421, host);
      assert.ok(!text.includes('node1'), host);
    }
    assert.equal((await ask('/a-token/', { host: `localhost:${page.ui.port}` })).status, 200);
    assert.equal((await ask('/a-token/', { host: here, 'sec-fetch-site': 'cross-site' })).status, 403);
    for (const path of ['/', '/a-toke/', '/a-token2/', '/?a-token']) assert.equal((await ask(path)).status, 403, path);
  });

  it('is read-only', async () => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const { status, headers } = await ask('/a-token/', {}, method);
      assert.deepEqual([status, headers.allow], [405, 'GET, HEAD'], method);
    }
    assert.equal((await ask('/a-token/', {}, 'HEAD')).text, '');
    assert.ok(page.api.requests.every((one) => one.startsWith('GET ')));
  });

  it('names objects that the user may not read', async () => {
    page.api.forbidden.add('nodecaches');
    assert.match((await ask('/a-token/')).text, /you may not read nodecaches/);
  });

  it('escapes texts of objects', () => {
    assert.equal(
      html`<b title="${'"\'>'}">${'<script>&'}</b>`.text,
      '<b title="&#34;&#39;&#62;">&#60;script&#62;&#38;</b>',
    );
  });
});
