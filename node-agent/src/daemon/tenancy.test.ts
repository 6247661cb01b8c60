import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';
import { loadConfig } from '../config/index.ts';
import type { Origin } from '../origins/origin.ts';
import { parseSource } from '../origins/source.ts';
import { listAll } from '../origins/testing/list_all.ts';
import { originOpener, sourcePreparer } from './sources.ts';

const signal = () => AbortSignal.timeout(300_000);
const commit = '0123456789abcdef0123456789abcdef01234567';
const entry = { index: 1, path: 'x', contentKey: '', validator: '' };
const refused = { code: 'PermissionDenied' };

/** Sources that a tenant may write, against an agent with the operator's configuration, which permits nothing. */
describe('tenants', () => {
  let folder: string;
  let server: ScriptedServer;
  const opened: Origin[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-tenants-'));
    server = await startServer();
  });
  beforeEach(() => {
    server.requests.length = 0;
    server.handler = (request, response) => sendFile(request, response, Buffer.from('secret'), { etag: '"1"' });
  });
  afterEach(() => {
    for (const origin of opened.splice(0)) origin.close();
  });
  after(async () => {
    await server.stop();
    await rm(folder, { recursive: true });
  });

  async function open(source: Source, origins: Record<string, unknown> = {}, revision = ''): Promise<Origin> {
    const file = join(folder, 'agent.yaml');
    await writeFile(file, JSON.stringify({ origins: { directoryPrefixes: [], ...origins } }));
    const { config } = await loadConfig({ file, environment: { HEARTH_SECRET: 'sixteen bytes or more' }, flags: {} });
    const prepared = sourcePreparer(config.origins, {})(source, false, 'team.x');
    const origin = originOpener(config, {})(prepared, revision, undefined, 'team.x');
    opened.push(origin);
    return origin;
  }
  async function refuses(source: Source, origins: Record<string, unknown> = {}, revision = ''): Promise<void> {
    const origin = await open(source, origins, revision);
    const name = JSON.stringify(source);
    await assert.rejects(listAll(origin, signal()), refused, `list ${name}`);
    if (origin.kind !== 'hub' || revision !== '') {
      await assert.rejects(origin.readByte(entry, signal()), refused, `read ${name}`);
    }
  }

  for (const path of ['/', '/etc', '/etc/', '/proc/self', '/etc/passwd', '/no/such/folder', '/tmp/../etc']) {
    it(`read no directory of the node: ${path}`, async () => {
      const source = { ...parseSource('/x'), kind: { $case: 'directory' as const, value: { path } } };
      const origin = await open(source);
      await assert.rejects(listAll(origin, signal()), { ...refused, message: /none is/ });
      await assert.rejects(async () => origin.base(), refused);
      await assert.rejects(origin.locate([entry], signal()), refused);
      await assert.rejects(origin.readByte(entry, signal()), refused);
    });
  }

  it('cannot leave an allowed directory by a link at its root, above it or within it', async () => {
    const allowed = join(folder, 'allowed');
    await mkdir(join(allowed, 'model'), { recursive: true });
    await mkdir(join(folder, 'hidden'), { recursive: true });
    await writeFile(join(folder, 'hidden', 'x'), 'secret');
    await symlink(join(folder, 'hidden'), join(allowed, 'link'));
    await symlink(join(folder, 'hidden'), join(allowed, 'model', 'folder'));
    await symlink(join(folder, 'hidden', 'x'), join(allowed, 'model', 'x'));
    const origins = { directoryPrefixes: [allowed] };
    const directory = (path: string) => ({
      ...parseSource('/x'),
      kind: { $case: 'directory' as const, value: { path } },
    });
    for (const path of ['link', 'link/.', '../hidden', 'model/folder', 'model/../../hidden']) {
      await refuses(directory(`${allowed}/${path}`), origins);
    }
    // Links inside the tree are rows of their own; the listing neither follows them nor reveals whether their targets
    // exist.
    await symlink(join(folder, 'hidden', 'y'), join(allowed, 'model', 'y'));
    await assert.rejects(listAll(await open(directory(join(allowed, 'model')), origins), signal()), refused);
    await writeFile(join(allowed, 'model', 'z'), 'own');
    const origin = await open(directory(join(allowed, 'model')), origins);
    assert.deepEqual(
      (await listAll(origin, signal())).map((row) => [row.path, row.kind, row.size]),
      [
        ['folder', 'symlink', 0n],
        ['x', 'symlink', 0n],
        ['y', 'symlink', 0n],
        ['z', 'file', 3n],
      ],
    );
    assert.match(origin.revision().warnings.join(), /^Links: 3 .* leads to .*, which does not exist or is not below/);
    await assert.rejects(origin.readByte(entry, signal()), { code: 'OriginChanged', message: /ELOOP/ });
  });

  // The same hosts in every spelling that URL parsers accept.
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '169.254.169.254',
    '[::ffff:a9fe:a9fe]',
    '[64:ff9b::169.254.169.254]',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '0.0.0.0',
    '10.96.0.1',
    'localhost',
  ];
  for (const host of hosts) {
    it(`reach no ${host} by an http, hub or S3 source`, async () => {
      const { port } = new URL(server.url);
      const endpoint = `http://${host}:${port}`;
      const base = { allowPrivate: false, unusableNames: '', allowWeakValidators: false };
      const http = { $case: 'http' as const, value: { urls: [`${endpoint}/x`], sha256: {} } };
      const index = { $case: 'http' as const, value: { urls: [`${endpoint}/`], sha256: {} } };
      const hub = {
        $case: 'hub' as const,
        value: { endpoint, repoType: '', repo: 'org/m', revision: 'main', layout: '' },
      };
      const s3 = { bucket: 'models', prefix: '', endpoint, region: 'us-east-1', pathStyle: true };
      await refuses({ ...base, kind: http });
      await refuses({ ...base, kind: index });
      await refuses({ ...base, kind: hub });
      await refuses({ ...base, kind: hub }, {}, commit);
      await refuses({ ...base, kind: { $case: 's3' as const, value: s3 } });
      assert.deepEqual(server.requests, []);
    });
  }

  it('cannot allow themselves private addresses', async () => {
    const source = { ...parseSource(`${server.url}/x`), allowPrivate: true };
    await assert.rejects(open(source), refused);
  });

  describe('without credentials', () => {
    const identity = {
      AWS_ACCESS_KEY_ID: 'of-the-node',
      AWS_SECRET_ACCESS_KEY: 'of-the-node-too',
      AWS_EC2_METADATA_DISABLED: 'true',
      HF_TOKEN: 'hf_of_the_node',
    };
    let before: [string, string | undefined][];
    beforeEach(() => {
      before = Object.keys(identity).map((name) => [name, process.env[name]]);
      Object.assign(process.env, identity);
    });
    afterEach(() => {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    });

    /** True when a request of the dataset was signed or had a token. */
    async function asked(dataset: string, kind: 's3' | 'hub', nodeIdentity?: string[]): Promise<boolean> {
      const { port } = new URL(server.url);
      const endpoint = `http://127.0.0.1:${port}`;
      const environment = { ...identity, HF_ENDPOINT: endpoint };
      const file = join(folder, 'agent.yaml');
      const origins = { allowPrivate: true, ...(nodeIdentity === undefined ? {} : { nodeIdentity }) };
      await writeFile(file, JSON.stringify({ origins }));
      const { config } = await loadConfig({ file, environment: { HEARTH_SECRET: 'sixteen bytes or more' }, flags: {} });
      const text = kind === 's3' ? `s3://models/x?endpoint=${endpoint}` : `hf://org/m?endpoint=${endpoint}`;
      const prepared = sourcePreparer(config.origins, environment)(parseSource(text), false, dataset);
      const origin = originOpener(config, environment)(prepared, '', undefined, dataset);
      opened.push(origin);
      server.requests.length = 0;
      server.handler = (_request, response) => {
        response.writeHead(403, { 'content-type': 'application/xml' });
        response.end('<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>');
      };
      const denied = await listAll(origin, signal()).then(
        () => assert.fail('it was refused'),
        (error: Error) => error.message,
      );
      const [first] = server.requests;
      const signed = first?.authorization !== undefined;
      if (kind === 's3' && !signed) assert.match(denied, /anonymous.*give it a secretRef, or .*origins\.nodeIdentity/);
      return signed;
    }

    for (const kind of ['s3', 'hub'] as const) {
      it(`read ${kind} as the node only where listed`, async () => {
        assert.equal(await asked('team.x', kind, []), false);
        assert.equal(await asked('team.x', kind, ['other.', 'team.']), true);
        assert.equal(await asked('teammate.x', kind, ['team.']), false);
        assert.equal(await asked('team.x', kind), true, 'where the agent is its own administrator');
      });
    }
  });

  it('reach nothing by redirects of an allowed host', async () => {
    const origins = { allowedNetworks: ['127.0.0.1/32'] };
    const { port } = new URL(server.url);
    const other = await startServer();
    try {
      for (const location of [
        `http://127.0.0.2:${port}/x`,
        'http://169.254.169.254/latest/meta-data/',
        `http://[::1]:${new URL(other.url).port}/x`,
      ]) {
        server.handler = (_request, response) => response.writeHead(302, { location }).end();
        await refuses(parseSource(`${server.url}/x`), origins);
        await refuses(parseSource(`hf://org/m?endpoint=${server.url}`), origins);
        const hub = await open(parseSource(`hf://org/m?endpoint=${server.url}`), origins, commit);
        await assert.rejects(hub.locate([entry], signal()), refused, location);
        const s3 = await open(parseSource(`s3://models?endpoint=${server.url}`), origins);
        await assert.rejects(s3.readByte(entry, signal()), refused, location);
        await assert.rejects(listAll(s3, signal()));
      }
      assert.deepEqual(other.requests, []);
    } finally {
      await other.stop();
    }
  });
});
