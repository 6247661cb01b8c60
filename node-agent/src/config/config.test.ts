import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { measureCacheDirectories } from './cache_directory.ts';
import { configurationDocument, describeConfig } from './describe.ts';
import { engineLimits } from './limits_section.ts';
import { type ConfigInput, loadConfig } from './load.ts';
import { settings } from './settings.ts';

const secret = 'a secret of enough bytes';

describe('configuration', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-config-'));
    await writeFile(join(folder, 'secret'), `${secret}\n`);
    await writeFile(join(folder, 'short'), 'short\n');
  });
  after(async () => rm(folder, { recursive: true }));

  async function load(yaml: string, environment: Record<string, string> = {}, flags: ConfigInput['flags'] = {}) {
    const file = join(folder, 'agent.yaml');
    await writeFile(file, yaml);
    return await loadConfig({
      file,
      environment: { HEARTH_SECRET_FILE: join(folder, 'secret'), ...environment },
      flags,
    });
  }

  it('takes less memory for chunks beside memory for whole files', async () => {
    const { config } = await load('engine: { memoryBytes: 25% }');
    assert.equal(config.engine.bufferBytes, 256n << 20n);
    const both = await load('engine: { memoryBytes: 25%, bufferBytes: 1GiB }');
    assert.equal(both.config.engine.bufferBytes, 1n << 30n);
  });

  it('has defaults for everything but the secret', async () => {
    const { config, warnings } = await load('');
    assert.equal(config.cluster, 'hearth');
    assert.ok(config.node.length > 0);
    assert.deepEqual(config.wire.listen, [{ host: '0.0.0.0', port: 7527 }]);
    assert.deepEqual(config.wire.advertise, []);
    assert.equal(config.engine.bufferBytes, 512n << 20n);
    assert.equal(config.control.listen, undefined);
    assert.equal(config.shutdownDeadline, 10_000);
    assert.equal(Buffer.from(config.secret).toString(), secret);
    assert.deepEqual(warnings, []);
  });

  it('takes each setting from its flag, variable, file or default, in this order', async () => {
    const yaml = 'node: from-file\nzone: file\ncontrol: { socket: /file.sock }\nwire: { listen: [10.0.0.1] }\n';
    const { config } = await load(
      yaml,
      { HEARTH_NODE: 'from-env', HEARTH_CONTROL_SOCKET: '/env.sock', HEARTH_CACHE_DIRECTORIES: '/a=1GiB,/b=50%' },
      { 'control-socket': '/flag.sock', 'wire-listen': ['127.0.0.1:0', '[::1]:5'], labels: ['a=b', 'c=d'] },
    );
    assert.equal(config.node, 'from-env');
    assert.equal(config.zone, 'file');
    assert.equal(config.control.socket, '/flag.sock');
    assert.deepEqual(config.wire.listen, [
      { host: '127.0.0.1', port: 0 },
      { host: '::1', port: 5 },
    ]);
    assert.deepEqual(
      config.cache.directories.map((directory) => [directory.path, directory.budget]),
      [
        ['/a', { bytes: 1n << 30n }],
        ['/b', { basisPoints: 5000 }],
      ],
    );
    assert.deepEqual(config.labels, { a: 'b', c: 'd' });
  });

  it('limits shared resources, and prints them like the file', async () => {
    const { config } = await load('limits: { origin: { total: 1GiB, warm: 100MiB }, disk: { warm: 1 } }\n', {
      HEARTH_LIMITS_PEERS_TOTAL: '1TB',
    });
    assert.deepEqual(engineLimits(config.limits), {
      origin: { total: 1n << 30n, warm: 100n << 20n },
      peers: { total: 1_000_000_000_000n, warm: 0n },
      disk: { total: 0n, warm: 1n },
    });
    assert.deepEqual(parse(describeConfig(config)).limits, {
      origin: { total: '1GiB', warm: '100MiB' },
      peers: { total: '976562500KiB' },
      disk: { warm: '1B' },
    });
    const { config: unlimited } = await load('');
    assert.deepEqual(engineLimits(unlimited.limits).disk, { total: 0n, warm: 0n });
  });

  const refused: [
    name: string,
    yaml: string,
    environment: Record<string, string>,
    flags: ConfigInput['flags'],
    message: RegExp,
  ][] = [
    ['an unknown key', 'node: a\nstoer: x\n', {}, {}, /line 2 of .*agent\.yaml: there is no setting stoer/],
    ['half an identity for the store', 'store: etcd://a\nstoreKey: /k\n', {}, {}, /storeKey \(line 2 .*is given alone/],
    ['TLS for a store in a file', 'storeAuthorities: /c\n', {}, {}, /are for a store in etcd, and store \(default\)/],
    ['a key at the wrong depth', 'socket: /x\n', {}, {}, /no setting socket; did you mean control\.socket\?/],
    ['bad YAML', 'node: [\n', {}, {}, /line \d of .*agent\.yaml is not YAML/],
    ['a value of the wrong kind', 'node: a\nzone: [1]\n', {}, {}, /zone \(line 2 of .*agent\.yaml\) must be a name/],
    ['a list as the file', '- a\n', {}, {}, /the file must be a mapping/],
    ['an empty value', 'node:\n', {}, {}, /node \(line 1 of .*\) must be a name/],
    [
      'a bad size',
      '',
      { HEARTH_ENGINE_BUFFER_BYTES: '12 parsecs' },
      {},
      /engine\.bufferBytes \(variable HEARTH_ENGINE_BUFFER_BYTES\) must be a size of at least 32MiB/,
    ],
    [
      'no rate',
      'limits: { disk: { total: 0 } }\n',
      {},
      {},
      /limits\.disk\.total \(line 1 .*must be a size of at least 1B/,
    ],
    [
      'warm work with more than all',
      'limits: { peers: { total: 1MiB, warm: 2MiB } }\n',
      {},
      {},
      /limits\.peers\.warm \(line 1 .*\) must not be more than total/,
    ],
    [
      'a bad flag value',
      '',
      {},
      { 'engine-shards': 'many' },
      /engine\.shards \(flag --engine-shards\) must be a number from 0 to 256/,
    ],
    ['an unknown flag', '', {}, { nodes: 'a' }, /no flag --nodes/],
    ['the secret in the file', 'secret: aaaaaaaaaaaaaaaaaaaaaaa\n', {}, {}, /is not allowed in the configuration file/],
    ['the secret as a flag', '', {}, { secret }, /no flag --secret/],
    [
      'a short secret',
      '',
      { HEARTH_SECRET_FILE: '', HEARTH_SECRET: 'short' },
      {},
      /secret \(variable HEARTH_SECRET\) must be text of at least 16 bytes/,
    ],
    ['no secret', '', { HEARTH_SECRET_FILE: '' }, {}, /the cluster secret is missing/],
    ['two secrets', '', { HEARTH_SECRET: secret }, {}, /both the variable HEARTH_SECRET and secretFile/],
    [
      'a missing secret file',
      '',
      { HEARTH_SECRET_FILE: '/does/not/exist' },
      {},
      /secretFile \/does\/not\/exist \(variable HEARTH_SECRET_FILE\) cannot be read/,
    ],
    [
      'control over TCP without TLS',
      '',
      {},
      { 'control-listen': '10.0.0.1' },
      /needs mutual TLS; give control\.certificate, control\.key, control\.clientAuthorities/,
    ],
    [
      'a budget over the whole disk',
      'cache: { directories: ["/a=101%"] }\n',
      {},
      {},
      /cache\.directories \(line 1 .*\) must be absolute paths with budgets/,
    ],
    ['no cache directory', 'cache: { directories: [] }\n', {}, {}, /cache\.directories .* must be absolute paths/],
    ['one directory twice', 'cache: { directories: [/a, /a=1GiB] }\n', {}, {}, /names \/a twice/],
    ['a store of another kind', 'store: redis://x\n', {}, {}, /store \(line 1 .*\) must be sqlite:/],
    [
      'a host name to listen on',
      '',
      { HEARTH_WIRE_LISTEN: 'example.org' },
      {},
      /wire\.listen \(variable .*\) must be an IP address/,
    ],
    [
      'a host name as a network',
      '',
      { HEARTH_ORIGINS_ALLOWED_NETWORKS: '10.0.0.0/8,host' },
      {},
      /origins\.allowedNetworks .* must be networks/,
    ],
    ['a duration without unit', 'shutdownDeadline: 10\n', {}, {}, /shutdownDeadline .* must be a duration/],
    ['a node name with a slash', '', {}, { node: 'a/b' }, /node \(flag --node\) must be a name of letters/],
    ['a long socket path', '', {}, { 'control-socket': `/${'x'.repeat(107)}` }, /at most 107 bytes/],
  ];
  for (const [name, yaml, environment, flags, message] of refused) {
    it(`refuses ${name} with its source and the allowed values`, async () => {
      await assert.rejects(load(yaml, environment, flags), (thrown: Error) => {
        assert.match(thrown.message, message);
        assert.ok(!thrown.message.includes(secret), 'the secret must not be in the message');
        return true;
      });
    });
  }

  it('names every refused value at once', async () => {
    await assert.rejects(
      load('node: "?"\n', { HEARTH_LOG_LEVEL: 'loud' }),
      /node .*; log\.level .* must be debug, info, warn or error/,
    );
  });

  it('names a secret file that is too short', async () => {
    await assert.rejects(
      load('', { HEARTH_SECRET_FILE: join(folder, 'short') }),
      /holds 5 bytes; it must hold at least 16/,
    );
  });

  it('refuses a missing explicit file and ignores a missing default one', async () => {
    const environment = { HEARTH_SECRET: secret };
    await assert.rejects(
      loadConfig({ file: join(folder, 'none.yaml'), environment, flags: {} }),
      /cannot read the configuration file .*none\.yaml/,
    );
  });

  it('warns of unknown variables, but not of those of Kubernetes', async () => {
    const { warnings } = await load('', {
      HEARTH_STOER: 'x',
      HEARTH_AGENT_SERVICE_HOST: '1',
      HEARTH_AGENT_PORT_7527_TCP: 'x',
    });
    assert.deepEqual(warnings, ['the variable HEARTH_STOER is not a setting and has no effect']);
  });

  it('prints the effective configuration as a loadable file, without the secret', async () => {
    const { config } = await load('cache: { directories: [{ path: /a, budget: 200GiB, freeFloor: 5% }] }\nnode: n1\n');
    const printed = describeConfig(config);
    assert.ok(!printed.includes(secret));
    assert.equal(parse(printed).cache.directories[0].budget, '200GiB');
    const again = await load(printed);
    assert.deepEqual(again.config, config);
  });

  it('parses a directory with its budget and floor', async () => {
    const { config } = await load('cache: { directories: ["/a=200GiB:5%", "/b=80%", /c] }\n');
    assert.deepEqual(config.cache.directories, [
      { path: '/a', budget: { bytes: 200n << 30n }, freeFloor: { basisPoints: 500 } },
      { path: '/b', budget: { basisPoints: 8000 }, freeFloor: { basisPoints: 2000 } },
      { path: '/c', budget: { basisPoints: 7000 }, freeFloor: { basisPoints: 2000 } },
    ]);
    await assert.rejects(load('cache: { directories: ["/a=1GiB:5%:2"] }\n'), /cache\.directories/);
  });

  it("resolves shares by the directory's future file system", async () => {
    const directories = [{ path: join(folder, 'not', 'yet'), budget: { basisPoints: 5000 }, freeFloor: { bytes: 7n } }];
    const [resolved] = await measureCacheDirectories(directories);
    assert.ok(resolved !== undefined && resolved.budgetBytes > 0n);
    assert.equal(resolved.freeFloorBytes, 7n);
    const [parent] = await measureCacheDirectories([{ path: folder, budget: { bytes: 1n }, freeFloor: { bytes: 0n } }]);
    assert.equal(resolved.device, parent?.device);
    assert.equal(resolved.budgetBytes, (parent?.fileSystemBytes ?? 0n) / 2n);
  });

  it('gives every setting its own variable and flag', () => {
    assert.equal(new Set(settings.map((one) => one.variable)).size, settings.length);
    assert.deepEqual(
      settings.filter((one) => one.flag === undefined).map((one) => one.key),
      ['secret'],
    );
    assert.equal(settings.find((one) => one.key === 'origins.allowPrivate')?.flag, 'origins-allow-private');
  });

  it('matches docs/configuration.md', async () => {
    const document = await readFile(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');
    assert.equal(document, configurationDocument(), 'run node-agent/src/config/write_document.ts');
  });
});
