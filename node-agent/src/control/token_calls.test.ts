import assert from 'node:assert/strict';
import { epochMs } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { makeToken } from '../clients/index.ts';
import { TestCluster } from '../testing/cluster.ts';
import { TokenCalls } from './token_calls.ts';

describe('tokens of clients by the control API', () => {
  const secret = Buffer.from('a secret of the cluster');
  const asked = {
    datasets: ['team.one', 'team.two'],
    rights: [],
    lifeMs: 60_000n,
    node: '',
    podNamespace: '',
    podUid: '',
  };
  let cluster: TestCluster;
  let calls: TokenCalls;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], []);
    const grants = { adviseNamespaces: ['team', 'near'], adviseClusterNamespaces: ['team'] };
    calls = new TokenCalls(cluster.agent('b'), { cluster: 'test', secret, grants });
  });
  afterEach(() => cluster.close());

  it('grant only reading the datasets for the requested time, under the cluster secret', () => {
    const before = Math.floor(epochMs(cluster.clock));
    const { token, expiresAtMs, cluster: name } = calls.createToken(asked);
    const expiresAt = Number(expiresAtMs);
    assert.ok(expiresAt >= before + 60_000);
    assert.equal(name, 'test');
    const { datasets } = asked;
    assert.equal(token, makeToken({ cluster: 'test', node: '', expiresAt, rights: ['read'], datasets }, secret));
  });

  it('grant more rights and bind to a node on request', () => {
    const { token, expiresAtMs } = calls.createToken({ ...asked, rights: ['read', 'advise'], node: 'b' });
    const capability = { cluster: 'test', node: 'b', expiresAt: Number(expiresAtMs), datasets: asked.datasets };
    assert.equal(token, makeToken({ ...capability, rights: ['read', 'advise'] }, secret));
  });

  it('name the pod that they are for', () => {
    const { token, expiresAtMs } = calls.createToken({ ...asked, podNamespace: 'team', podUid: 'a-uid' });
    const capability = { cluster: 'test', node: '', expiresAt: Number(expiresAtMs), rights: ['read'] as const };
    const pod = { namespace: 'team', uid: 'a-uid' };
    assert.equal(token, makeToken({ ...capability, datasets: asked.datasets, pod, nodes: ['b'] }, secret));
  });

  it('of a pod are for the agents in their list alone, the node of the pod first', () => {
    for (const [node, host] of [
      ['a', '192.0.2.1'],
      ['b', '192.0.2.2'],
    ] as const) {
      cluster.wires.set(node, [{ host, port: 7527 }]);
    }
    const pod = { namespace: 'team', uid: 'a-uid' };
    const { token, expiresAtMs } = calls.createToken({ ...asked, podNamespace: pod.namespace, podUid: pod.uid });
    const capability = { cluster: 'test', node: '', expiresAt: Number(expiresAtMs), rights: ['read'] as const };
    const { datasets } = asked;
    assert.equal(token, makeToken({ ...capability, datasets, pod, nodes: ['b', 'a'] }, secret));
  });

  it('let a pod advise where an administrator lets its namespace', () => {
    const create = (podNamespace: string, rights: string[]) =>
      calls.createToken({ ...asked, podNamespace, podUid: 'a-uid', rights });
    create('team', ['read', 'advise', 'advise-cluster']);
    create('near', ['read', 'advise']);
    for (const [namespace, right, setting] of [
      ['near', 'advise-cluster', /clients\.adviseClusterNamespaces/],
      ['other', 'advise', /clients\.adviseNamespaces/],
    ] as const) {
      assert.throws(() => create(namespace, ['read', right]), { code: 'PermissionDenied', message: setting });
    }
    assert.throws(
      () =>
        new TokenCalls(cluster.agent('b'), { cluster: 'test', secret }).createToken({
          ...asked,
          podNamespace: 'team',
          podUid: 'a-uid',
          rights: ['advise'],
        }),
      { code: 'PermissionDenied' },
    );
  });

  it('are refused to a pod whose tokens are revoked', async () => {
    const { revocations } = cluster.agent('b');
    await revocations.revoke('pod', 'team/a-uid');
    await revocations.revoke('namespace', 'spies');
    await until(() => cluster.engine('b').revoked.namespaces.length > 0);
    const create = (podNamespace: string, podUid: string) => calls.createToken({ ...asked, podNamespace, podUid });
    for (const [namespace, uid] of [
      ['team', 'a-uid'],
      ['spies', 'b-uid'],
    ] as const) {
      assert.throws(() => create(namespace, uid), { code: 'Unauthenticated', message: /hearth revocation ls/ });
    }
    create('team', 'b-uid');
    create('other', 'a-uid');
  });

  it("list the agents that answer clients, the node's agent first", () => {
    const wire = (host: string) => [
      { host, port: 7527 },
      { host: '192.0.2.99', port: 7527 },
    ];
    cluster.wires.set('a', wire('192.0.2.1')).set('b', wire('192.0.2.2')).set('c', wire('fd00::3'));
    assert.deepEqual(calls.createToken(asked).agents, [
      'gd2fs://192.0.2.2:7527',
      'gd2fs://192.0.2.1:7527',
      'gd2fs://[fd00::3]:7527',
    ]);
    cluster.withoutCache.add('a');
    assert.deepEqual(calls.createToken(asked).agents, ['gd2fs://192.0.2.2:7527', 'gd2fs://[fd00::3]:7527']);
  });

  it('are refused for no dataset, for all datasets, and for invalid rights and lifetimes', () => {
    for (const [bad, message] of [
      [{ datasets: [] }, /at least one/],
      [{ datasets: ['*'] }, /cannot be the name of a dataset/],
      [{ rights: ['own'] }, /rights is "own"; it must be read, advise, advise-cluster, write, delete/],
      [{ lifeMs: 999n }, /life_ms is 999/],
      [{ podUid: 'a-uid' }, /both or neither/],
      [{ lifeMs: 86_400_001n }, /life_ms/],
    ] as const) {
      const request = { ...asked, ...(bad as Partial<typeof asked>) };
      assert.throws(() => calls.createToken(request), { code: 'InvalidArgument', message });
    }
  });
});
