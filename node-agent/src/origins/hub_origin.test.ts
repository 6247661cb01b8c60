import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { TemporaryFolder } from '@hearth/common/testing';
import { type Handler, type ScriptedServer, sendFile, sendJson, startServer } from '@hearth/common/testing/origins';
import { digestKey, hubKey } from './content_key.ts';
import { createOrigin } from './create_origin.ts';
import type { LocatableEntry, Origin, OriginOptions } from './origin.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const commit = '0123456789abcdef0123456789abcdef01234567';
const oid = 'aaaabbbbccccddddeeeeffff0000111122223333';
const sha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const signal = () => AbortSignal.timeout(300_000);

function entry(index: number, path: string): LocatableEntry {
  return { index, path, contentKey: '', validator: '' };
}

describe('HubOrigin', () => {
  let hub: ScriptedServer;
  let cdn: ScriptedServer;
  let folder: TemporaryFolder;
  const opened: Origin[] = [];

  beforeEach(async () => {
    hub = await startServer();
    cdn = await startServer();
    folder = new TemporaryFolder('hub');
    hub.handler = model;
  });
  afterEach(async () => {
    for (const origin of opened.splice(0)) origin.close();
    await hub.stop();
    await cdn.stop();
    await folder.remove();
  });

  /** A repository with two pages of files, one file in large file storage, answered like huggingface.co. */
  const model: Handler = (request, response) => {
    const json = (body: unknown, headers = {}) =>
      response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    const tree = `/api/models/org/llama/tree/${commit}?recursive=true`;
    const resolve = `/org/llama/resolve/${commit}/`;
    switch (request.url) {
      case '/api/models/org/llama/revision/refs%2Fpr%2F1':
      case '/api/models/org/llama/revision/main':
        return json({ sha: commit, siblings: [] });
      case tree:
        return json(
          [
            { type: 'directory', oid, size: 0, path: 'sub dir' },
            { type: 'file', oid, size: 12, path: 'sub dir/config+1.json' },
          ],
          { link: `<https://huggingface.co${tree}&cursor=abc>; rel="next"` },
        );
      case `${tree}&cursor=abc`:
        return json([
          {
            type: 'file',
            oid,
            size: 5_000_000_000,
            path: 'model.safetensors',
            lfs: { oid: sha256, size: 5_000_000_000, pointerSize: 135 },
            xetHash: 'x',
          },
        ]);
      case `${resolve}model.safetensors`: {
        const signed = 'X-Amz-Date=20261121T120000Z&X-Amz-Expires=3600&X-Amz-Signature=secret';
        return response.writeHead(302, { location: `${cdn.url}/blob?${signed}`, 'x-repo-commit': commit }).end();
      }
      case `${resolve}sub%20dir/config%2B1.json`:
        return response.writeHead(307, { location: '/api/resolve-cache/config' }).end();
      case '/api/resolve-cache/config':
        return sendFile(request, response, Buffer.from('{"a":  true}'), { etag: `"${oid}"` });
      default:
        response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end();
    }
  };

  function open(text: string, options: OriginOptions = {}, layout = '', more: Partial<Source> = {}): Origin {
    const parameters = `endpoint=${hub.url}/${layout === '' ? '' : `&layout=${layout}`}`;
    const source = { ...parseSource(`${text}?${parameters}`), allowPrivate: true, ...more };
    const origin = createOrigin(source, { attempts: 2, pauseMs: 1, environment: {}, ...options });
    opened.push(origin);
    return origin;
  }

  it('lists a revision by commit, page after page', async () => {
    const origin = open('hf://org/llama');
    assert.deepEqual(await listAll(origin), [
      {
        path: 'model.safetensors',
        kind: 'file',
        size: 5_000_000_000n,
        contentKey: digestKey(hub.url, sha256, 5_000_000_000n),
        sourceDigest: sha256,
        validator: '',
      },
      {
        path: 'sub dir/config+1.json',
        kind: 'file',
        size: 12n,
        contentKey: hubKey(`${hub.url}/org/llama/resolve/${commit}/sub%20dir/config%2B1.json`, oid),
        validator: `etag:"${oid}"`,
      },
    ]);
    const parts = (await listAll(open('hf://org/llama'))).map((row) => origin.partOf(row));
    assert.deepEqual(parts, ['lfs', 'plain'], 'stored apart, so read apart to see that both may be read');
    assert.equal(origin.revision().name, commit);
    assert.deepEqual(origin.revision().warnings, [], 'a commit never changes');
    assert.equal(origin.base(), undefined);
    assert.equal((await listAll(open('hf://org/llama@refs/pr/1'))).length, 2);
  });

  it('lays a repository out as a hub cache, in which every agent finds the commit', async () => {
    const origin = open('hf://org/llama', { hubReferencesDirectory: folder.file('references') }, 'hub');
    const rows = await listAll(origin);
    const snapshot = `models--org--llama/snapshots/${commit}`;
    const [reference, model, config] = [
      'models--org--llama/refs/main',
      `${snapshot}/model.safetensors`,
      `${snapshot}/sub dir/config+1.json`,
    ];
    assert.deepEqual(rows.map(({ path }) => path).sort(), [reference, model, config]);
    assert.deepEqual(
      [reference, model, config].map((path) => origin.chosenBy?.(path)),
      [undefined, 'model.safetensors', 'sub dir/config+1.json'],
    );
    const plain = (await listAll(open('hf://org/llama'))).map(({ contentKey }) => contentKey);
    assert.ok(
      rows.every(({ path, contentKey }) => path === reference || plain.includes(contentKey ?? '')),
      'the same bytes as without the layout',
    );

    const [first, second] = await origin.locate([entry(0, reference), entry(1, model)], signal());
    assert.equal(readFileSync(first?.path ?? '', 'utf8'), commit);
    assert.match(second?.url ?? '', /\/blob\?/);
    await origin.readByte({ ...entry(0, reference), size: 40n }, signal());
    const parts = new Set(rows.map((row) => origin.partOf(row)));
    assert.deepEqual([...parts].sort(), ['lfs', 'plain', 'reference']);
    const names = async (revision: string) =>
      (await listAll(open(`hf://org/llama@${revision}`, {}, 'hub'))).map(({ path }) => path);
    assert.ok((await names('refs/pr/1')).includes('models--org--llama/refs/refs/pr/1'));
  });

  it('refuses plain files of a hub whose ETags are not git ids, unless allowed', async () => {
    hub.handler = (request, response) => {
      if (request.url === '/api/resolve-cache/config')
        return sendFile(request, response, Buffer.from('{"a":  true}'), { etag: '"1"' });
      return model(request, response);
    };
    await assert.rejects(listAll(open('hf://org/llama')), {
      code: 'InvalidArgument',
      message: /^WeakValidator: sub dir\/config\+1\.json has neither .* are not the git ids/,
    });
    const origin = open('hf://org/llama', {}, '', { allowWeakValidators: true });
    const rows = await listAll(origin);
    assert.deepEqual(
      rows.map(({ validator }) => validator),
      ['', ''],
    );
    assert.match(origin.revision().warnings.join(), /^WeakValidator: 1 files/);
  });

  it('asks for a repository by the name that the hub has for it, one request a file', async () => {
    hub.handler = (request, response) => {
      const { url = '' } = request;
      if (url.includes('/Org/Llama')) {
        response.writeHead(307, { location: url.replace('/Org/Llama', '/org/llama') }).end();
      } else if (url.startsWith('/api/models/org/llama/revision/')) {
        sendJson(response, { sha: commit, id: 'org/llama' });
      } else model(request, response);
    };
    const asked = (name: string) => hub.requests.filter(({ path }) => path.includes(`/${name}/`)).length;
    const lister = open('hf://Org/Llama');
    const rows = await listAll(lister);
    assert.equal(asked('Org/Llama'), 1);
    assert.match(lister.revision().warnings.join(), /^HubName: .* calls Org\/Llama org\/llama; agents ask for that/);
    const keys = rows.map(({ contentKey }) => contentKey);
    assert.ok(keys.includes(hubKey(`${hub.url}/Org/Llama/resolve/${commit}/sub%20dir/config%2B1.json`, oid)));
    // An agent that did not list it learns the name from the first redirect.
    hub.requests.length = 0;
    const reader = open('hf://Org/Llama', { revision: commit });
    for (let file = 0; file < 3; file++) {
      const [location] = await reader.locate([entry(file, 'model.safetensors')], signal());
      assert.match(location?.url ?? '', new RegExp(`^${cdn.url}/blob\\?X-Amz-Date=`));
      assert.notEqual(location?.expiresAt, undefined);
    }
    assert.deepEqual([asked('Org/Llama'), asked('org/llama')], [1, 3]);
  });

  it('lists 270,000 files in 270 requests', async () => {
    const files = 270_000;
    hub.handler = ({ url = '' }, response) => {
      if (url.includes('/revision/')) return sendJson(response, { sha: commit, id: 'org/llama' });
      const at = Number(new URL(url, hub.url).searchParams.get('cursor') ?? '0');
      const path = (index: number) => `f/${Math.floor(index / 1000)}/${index}.json`;
      const rows = Array.from({ length: 1000 }, (_, index) => ({ type: 'file', oid, size: 0, path: path(at + index) }));
      const next = `<${hub.url}/api/models/org/llama/tree/${commit}?recursive=true&cursor=${at + 1000}>; rel="next"`;
      if (at + 1000 < files) response.setHeader('link', next);
      sendJson(response, rows);
    };
    let listed = 0;
    for await (const page of open('hf://org/llama').list(signal())) listed += page.length;
    assert.equal(listed, files);
    assert.equal(hub.requests.length, 1 + files / 1000);
  });

  it('locates by the redirect, whose host never gets the token', async () => {
    const origin = open('hf://org/llama', { revision: commit, token: 'tok' });
    const locations = await origin.locate([entry(4, 'model.safetensors'), entry(9, 'sub dir/config+1.json')], signal());
    assert.equal(locations[0]?.entry, 4);
    assert.match(locations[0]?.url ?? '', new RegExp(`^${cdn.url}/blob\\?X-Amz-Date=`));
    assert.equal(locations[0]?.expiresAt, Date.UTC(2026, 10, 21, 13));
    assert.equal(locations[0]?.headers, undefined);
    assert.deepEqual(locations[1], {
      entry: 9,
      url: `${hub.url}/api/resolve-cache/config`,
      headers: { authorization: 'Bearer tok' },
    });
    assert.ok(hub.requests.every(({ authorization }) => authorization === 'Bearer tok'));
    assert.equal(cdn.requests.length, 0);
    await assert.rejects(origin.locate([entry(1, 'none')], signal()), { code: 'NotFound' });
    await assert.rejects(open('hf://org/llama').locate([entry(1, 'x')], signal()), {
      code: 'InvalidArgument',
      message: /commit is known/,
    });
  });

  it('omits files missing in the commit on request, but not a missing repository', async () => {
    const origin = open('hf://org/llama', { revision: commit });
    const found = await origin.locate([entry(1, 'none'), entry(4, 'model.safetensors')], signal(), true);
    assert.deepEqual(
      found.map((location) => location.entry),
      [4],
    );
    const many = Array.from({ length: 256 }, (_, index) => entry(index, `f${index}`));
    for (const cause of ['RepoNotFound', 'RevisionNotFound']) {
      hub.handler = (_request, response) => response.writeHead(404, { 'x-error-code': cause }).end();
      const before = hub.requests.length;
      await assert.rejects(origin.locate(many, signal(), true), { code: 'NotFound' });
      // Requests in flight when the first one failed, and no more.
      assert.ok(hub.requests.length - before <= 32);
    }
  });

  it('sends the token of the environment only to the hub of the environment', async () => {
    const environment = { HF_TOKEN: 'own', HF_ENDPOINT: hub.url };
    await listAll(open('hf://org/llama', { environment }));
    assert.ok(hub.requests.every(({ authorization }) => authorization === 'Bearer own'));
    hub.requests.length = 0;
    await listAll(open('hf://org/llama', { environment: { HF_TOKEN: 'own' } }));
    assert.ok(hub.requests.every(({ authorization }) => authorization === undefined));
  });

  it('finds the endpoint in the environment, and the paths of datasets and spaces', async () => {
    hub.handler = (request, response) => {
      const body = request.url?.includes('/tree/') ? [{ type: 'file', oid, size: 1, path: 'f' }] : { sha: commit };
      response.setHeader('etag', `"${oid}"`);
      response.end(JSON.stringify(body));
    };
    const source = { ...parseSource('hf://datasets/org/data@v1'), allowPrivate: true };
    const origin = createOrigin(source, { environment: { HF_ENDPOINT: `${hub.url}/` }, attempts: 1 });
    opened.push(origin);
    const [row] = await listAll(origin);
    assert.equal(row?.contentKey, hubKey(`${hub.url}/datasets/org/data/resolve/${commit}/f`, oid));
    assert.equal(hub.requests[0]?.path, '/api/datasets/org/data/revision/v1');
    assert.equal(origin.describe(), 'hf://datasets/org/data@v1');
  });

  it('gives the next step for gated, private and missing repositories', async () => {
    const cases: [number, string, string | undefined, RegExp][] = [
      [
        401,
        'GatedRepo',
        undefined,
        /^Unauthenticated: .*gated: accept its conditions at .*\/org\/llama and give a token/,
      ],
      [403, 'GatedRepo', 'tok', /^PermissionDenied: .*gated.*accept its conditions/],
      [401, 'RepoNotFound', undefined, /^Unauthenticated: .*does not exist at .* or is private/],
      [401, '', 'tok', /^Unauthenticated: .*does not accept the token/],
      [403, '', 'tok', /^PermissionDenied: .*right to read/],
      [404, 'RepoNotFound', 'tok', /^NotFound: there is no model repository org\/llama/],
      [404, 'RevisionNotFound', 'tok', /^NotFound: .*no revision "main"/],
      [429, '', undefined, /^Unavailable: .*limits/],
    ];
    for (const [status, cause, token, pattern] of cases) {
      hub.handler = (_request, response) =>
        response.writeHead(status, cause === '' ? {} : { 'x-error-code': cause }).end();
      await assert.rejects(
        listAll(open('hf://org/llama', token === undefined ? {} : { token })),
        (thrown: { code: string; message: string }) => {
          assert.match(`${thrown.code}: ${thrown.message}`, pattern);
          assert.doesNotMatch(thrown.message, /tok\b/);
          return true;
        },
      );
    }
  });

  it('refuses a server that is no hub, and endless listings', async () => {
    const answers: [string, RegExp][] = [
      ['<html>', /not JSON/],
      ['{"sha":"main"}', /sha: /],
      ['[]', /does not answer like a hub/],
    ];
    for (const [body, message] of answers) {
      hub.handler = (_request, response) => response.end(body);
      await assert.rejects(listAll(open('hf://org/llama')), { code: 'ProtocolError', message });
    }
    // A page that follows itself, and two pages that follow each other.
    let pages = 0;
    for (const pagesAround of [1, 2]) {
      hub.handler = (_request, response) => {
        const next = `<${hub.url}/x?recursive=true&cursor=${pages++ % pagesAround}>; rel="next"`;
        response.setHeader('link', next).end('[]');
      };
      await assert.rejects(listAll(open('hf://org/llama', { revision: commit })), {
        code: 'ProtocolError',
        message: /the same page again and again/,
      });
    }
  });

  it('refuses names that are not Unicode, or skips them', async () => {
    hub.handler = (_request, response) => response.end(`[{"type":"file","oid":"${oid}","size":1,"path":"bad\\ud800"}]`);
    await assert.rejects(listAll(open('hf://org/llama', { revision: commit })), {
      code: 'InvalidArgument',
      message: /1 names .*not Unicode/,
    });
  });

  it('refuses an endpoint in a private range', async () => {
    await assert.rejects(listAll(open('hf://org/llama', {}, '', { allowPrivate: false })), {
      code: 'PermissionDenied',
      message: /loopback/,
    });
  });
});
