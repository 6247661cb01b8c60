import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { maxTokenLifeMs } from './token.ts';

describe('revocations', () => {
  const token = '0123456789abcdef'.repeat(4);
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], []);
  });
  afterEach(() => cluster.close());
  const revocations = () => cluster.agent('a').revocations;
  const revoked = (node: string) => cluster.engine(node).revoked;

  it('reach the engines of all agents, also of one that starts later', async () => {
    await revocations().revoke('token', token);
    await revocations().revoke('pod', 'team/a-uid');
    await revocations().revoke('namespace', 'spies');
    const all = { tokens: [token], pods: ['team/a-uid'], namespaces: ['spies'] };
    for (const node of ['a', 'b']) {
      await until(() => revoked(node).namespaces.length > 0);
      assert.deepEqual(revoked(node), all);
    }
    await cluster.add('c');
    assert.deepEqual(revoked('c'), all);
  });

  it('are undone by permitting the tokens again', async () => {
    await revocations().revoke('namespace', 'spies');
    await until(() => revoked('b').namespaces.length > 0);
    await revocations().permit('namespace', 'spies');
    for (const node of ['a', 'b']) await until(() => revoked(node).namespaces.length === 0);
    await assert.rejects(revocations().permit('namespace', 'spies'), { code: 'NotFound' });
  });

  it('of tokens are deleted when no such token can be valid any more', async () => {
    await revocations().revoke('token', token);
    await revocations().revoke('pod', 'team/a-uid');
    await until(() => revoked('a').pods.length > 0);
    await cluster.clock.advance(maxTokenLifeMs + 1);
    await revocations().revoke('namespace', 'spies');
    const names = (await revocations().list()).map(({ name }) => name);
    assert.deepEqual(names, ['spies', 'team/a-uid']);
  });

  it('keep the time of the first of two equal ones', async () => {
    await revocations().revoke('namespace', 'spies');
    const before = await revocations().list();
    await cluster.clock.advance(1_000);
    await revocations().revoke('namespace', 'spies');
    assert.deepEqual(await revocations().list(), before);
  });

  it('are written again after the loss of the store, except those that were undone', async () => {
    await revocations().revoke('namespace', 'spies');
    await revocations().revoke('namespace', 'friends');
    await until(() => revoked('a').namespaces.length > 1);
    await revocations().permit('namespace', 'friends');
    await until(() => revoked('a').namespaces.length === 1);
    const release = cluster.store('a').holdWatches();
    await cluster.store('a').delete('revocations/namespace/spies');
    await revocations().rewrite();
    release();
    assert.deepEqual(
      (await revocations().list()).map(({ name }) => name),
      ['spies'],
    );
  });

  it('refuse names that no token can have', async () => {
    for (const [kind, name] of [
      ['token', 'abc'],
      ['pod', 'team'],
      ['pod', 'team/'],
      ['namespace', 'a/b'],
      ['namespace', ''],
    ] as const) {
      await assert.rejects(revocations().revoke(kind, name), { code: 'InvalidArgument' }, `${kind} ${name}`);
    }
  });
});
