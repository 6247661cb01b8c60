import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DaemonProcess, skip, tool, unlessUnavailable, until } from '@hearth/common/testing';
import { loadConfig } from '../../node-agent/src/config/index.ts';
import { openStore, type Store } from '../../node-agent/src/store/index.ts';
import { planCertificates } from '../../operator/src/certificates/index.ts';
import type { SecretTexts } from '../../operator/src/kubernetes/index.ts';
import { agentPaths, etcdPeerName, storeAddress } from '../../operator/src/storage_cluster/names.ts';
import { agentConfig } from '../../operator/src/storage_cluster/objects/agent_config.ts';
import { etcdArguments } from '../../operator/src/storage_cluster/objects/etcd_stateful_set.ts';
import { lastSentence } from '../../operator/src/storage_cluster/pod_state.ts';
import { sampleCluster } from '../../operator/src/storage_cluster/testing/samples.ts';

const namespace = 'hearth-system';

describe('what the operator gives its pods', () => {
  let folder: string;
  const members: DaemonProcess[] = [];
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-operator-'));
  });
  afterEach(async () => {
    for (const member of members.splice(0)) await member.end();
  });
  after(() => rmSync(folder, { recursive: true }));

  function writeSecret(name: string, texts: SecretTexts): string {
    const path = join(folder, name);
    mkdirSync(path, { recursive: true });
    for (const [key, text] of Object.entries(texts)) writeFileSync(join(path, key), text, { mode: 0o400 });
    return path;
  }

  describe('the configuration of agents', () => {
    it('is what the agent takes, with every field set', async () => {
      const group = {
        name: 'gpu',
        networks: ['10.1.0.0/16'],
        cacheDirectories: [
          { path: '/mnt/a', budget: '1.5Ti', freeFloor: '10%' },
          { path: '/mnt/b', budget: '70%' },
        ],
        engine: { shards: 4, originConnections: 64, buffer: '1Gi' },
      };
      const origins = {
        directoryPrefixes: ['/srv/models'],
        allowedNetworks: ['10.0.0.0/8'],
        certificateAuthorities: { name: 'company' },
      };
      const cluster = sampleCluster({ nodeGroups: [group], origins, logLevel: 'debug' });
      const [chosen] = cluster.spec.nodeGroups;
      const address = storeAddress(cluster, '10.96.0.7') ?? '';
      assert.ok(chosen);
      const file = join(folder, 'agent.yaml');
      const secret = writeSecret('secret', { secret: 'a secret of enough bytes' });
      writeFileSync(file, agentConfig(cluster, chosen, address).replaceAll(agentPaths.secret, secret));
      const environment = {
        HEARTH_NODE: 'n1',
        HEARTH_WIRE_LISTEN: '10.0.0.5',
        HEARTH_CONTROL_LISTEN: 'fd00::5',
        HEARTH_HEALTH_LISTEN: '10.0.0.5',
        HEARTH_MODELS_AGENT_PORT: 'tcp://10.0.0.1:1',
      };
      const { config, warnings } = await loadConfig({ file, environment, flags: {} });
      assert.deepEqual(warnings, []);
      assert.equal(config.store, address);
      assert.deepEqual(config.wire.networks, ['10.1.0.0/16']);
      assert.deepEqual(config.cache.directories[0], {
        path: '/mnt/a',
        budget: { bytes: 3n << 39n },
        freeFloor: { basisPoints: 1000 },
      });
      assert.deepEqual(config.control.listen, { host: 'fd00::5', port: 7528 });
      assert.deepEqual(config.health.listen, { host: '10.0.0.5', port: 7529 });
      assert.equal(config.control.socket, '/var/lib/hearth/models/run/agent.sock');
      assert.equal(config.volumes.directory, '/var/lib/hearth/models');
      assert.equal(config.engine.bufferBytes, 1n << 30n);
      assert.deepEqual(config.origins.directoryPrefixes, ['/srv/models']);
      assert.equal(config.origins.certificateAuthorities, '/etc/hearth/authorities/ca.crt');
      assert.equal(config.log.format, 'json');
    });

    it('allows no directories and no private networks unless they are named', async () => {
      const cluster = sampleCluster();
      const [group] = cluster.spec.nodeGroups;
      assert.ok(group);
      const file = join(folder, 'agent.yaml');
      const secret = writeSecret('secret', { secret: 'a secret of enough bytes' });
      writeFileSync(file, agentConfig(cluster, group, 'etcd://h:1/models').replaceAll(agentPaths.secret, secret));
      const { config } = await loadConfig({ file, environment: {}, flags: {} });
      assert.deepEqual(config.origins.directoryPrefixes, []);
      assert.equal(config.origins.allowPrivate, false);
      assert.deepEqual(config.origins.allowedNetworks, []);
    });
  });

  describe('a real etcd', () => {
    for (const replicas of [1, 3]) {
      it(`of ${replicas} lets agents in by their certificate, and no other client`, async function () {
        if (process.getuid?.() !== 0) skip(this, 'a file /etc/hosts for the members alone needs root');
        const etcd = await unlessUnavailable(this, () => tool('etcd'));
        const { texts } = await planCertificates(
          { cluster: 'models', peers: [etcdPeerName('models', namespace, '*')] },
          {},
          new Date(),
        );
        startMembers(etcd, replicas, writeSecret(`etcd-${replicas}`, texts.etcd));

        const cluster = sampleCluster({ store: { etcd: { replicas } } });
        const tls = writeSecret(`agent-${replicas}`, texts.agent);
        const address = storeAddress(cluster, hostOf(replicas - 1)) ?? '';
        const store = await openStore(address.replaceAll(agentPaths.certificates, tls));
        try {
          await answers(store);
        } finally {
          await store.close();
        }

        const stranger = (await planCertificates({ cluster: 'models', peers: [] }, {}, new Date())).texts.agent;
        const forged = writeSecret(`stranger-${replicas}`, { ...stranger, 'ca.crt': texts.agent['ca.crt'] ?? '' });
        const refused = await openStore(address.replaceAll(agentPaths.certificates, forged));
        try {
          await assert.rejects(refused.get('key', { deadlineMs: 3_000 }));
        } finally {
          await refused.close();
        }
      });
    }

    /** As the pods do: with the names of the members in a file of their own instead of DNS. */
    function startMembers(etcd: string, replicas: number, tls: string): void {
      const names = Array.from({ length: replicas }, (_, index) => memberName(index));
      const lines = names.map((name, index) => `${hostOf(index)} ${etcdPeerName('models', namespace, name)}\n`);
      writeFileSync(join(folder, `hosts-${replicas}`), lines.join(''));
      for (const index of names.keys()) members.push(startMember(etcd, index, replicas, tls));
    }

    function startMember(etcd: string, index: number, replicas: number, tls: string): DaemonProcess {
      const args = etcdArguments('models', namespace, 'token', replicas).map((flag) =>
        flag
          .replaceAll('$(POD_NAME)', memberName(index))
          .replaceAll('0.0.0.0', hostOf(index))
          .replaceAll('/etc/etcd/tls', tls)
          .replaceAll('/var/lib/etcd', dataOf(index, replicas)),
      );
      const script = `mount --bind ${join(folder, `hosts-${replicas}`)} /etc/hosts && exec "$@"`;
      const words = ['--mount', 'sh', '-c', script, 'sh', etcd, ...args];
      return new DaemonProcess('unshare', words, { log: logOf(index, replicas) });
    }

    const dataOf = (index: number, replicas: number) => join(folder, `data-${index}-of-${replicas}`);
    const logOf = (index: number, replicas: number) => join(folder, `log-${index}-of-${replicas}`);

    it('listens on IPv6 and IPv4 alike', async function () {
      if (process.getuid?.() !== 0) skip(this, 'network namespaces need root');
      const etcd = await unlessUnavailable(this, () => tool('etcd'));
      const { texts } = await planCertificates({ cluster: 'models', peers: [] }, {}, new Date());
      const tls = writeSecret('etcd-families', texts.etcd);
      const args = etcdArguments('models', namespace, 'token', 1).map((flag) =>
        flag
          .replaceAll('$(POD_NAME)', memberName(0))
          .replaceAll('/etc/etcd/tls', tls)
          .replaceAll('/var/lib/etcd', join(folder, 'data-families')),
      );
      const words = ['--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', etcd, ...args];
      const member = new DaemonProcess('unshare', words, { log: join(folder, 'log-families') });
      members.push(member);
      // proc_net_tcp(5): the address :: in state listen, with ports in hexadecimal digits. Its sockets take IPv4, too.
      const everywhere = (port: number) => `${'0'.repeat(32)}:${port.toString(16).toUpperCase().padStart(4, '0')}`;
      await until('all ports', () => {
        const sockets = readFileSync(`/proc/${member.pid}/net/tcp6`, 'utf8');
        return [2379, 2380, 2381].every((port) => sockets.includes(`${everywhere(port)} ${'0'.repeat(32)}:0000 0A`));
      });
    });

    it('says so when a member comes back without its data', async function () {
      if (process.getuid?.() !== 0) skip(this, 'a file /etc/hosts for the members alone needs root');
      const etcd = await unlessUnavailable(this, () => tool('etcd'));
      const subject = { cluster: 'models', peers: [etcdPeerName('models', namespace, '*')] };
      const { texts } = await planCertificates(subject, {}, new Date());
      for (const index of [0, 1, 2]) rmSync(dataOf(index, 3), { recursive: true, force: true });
      const tls = writeSecret('etcd-lost', texts.etcd);
      startMembers(etcd, 3, tls);
      // The one that is to be lost: others answer while it is not known to them yet.
      const address = storeAddress(sampleCluster({ store: { etcd: { replicas: 3 } } }), hostOf(2)) ?? '';
      const store = await openStore(
        address.replaceAll(agentPaths.certificates, writeSecret('agent-lost', texts.agent)),
      );
      try {
        await answers(store);
        await members.pop()?.end();
        rmSync(dataOf(2, 3), { recursive: true });
        const again = startMember(etcd, 2, 3, tls);
        members.push(again);
        await again.outcome;
        assert.match(lastSentence(readFileSync(logOf(2, 3), 'utf8')), /has already been bootstrapped/);
      } finally {
        await store.close();
      }
    });
  });
});

const answers = (store: Store) =>
  until('the store answers', () =>
    store.put('key', 'value', { deadlineMs: 2_000 }).then(
      () => true,
      () => false,
    ),
  );
const memberName = (index: number) => `hearth-models-etcd-${index}`;
const hostOf = (index: number) => `127.0.77.${index + 1}`;
