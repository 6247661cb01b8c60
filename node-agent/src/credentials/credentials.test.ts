import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { elapse, until } from '@hearth/common/testing';
import { parseSource } from '../origins/source.ts';
import { noCredentials, TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { isEmpty, ofFirst, ofMirror, originCredentials } from './own.ts';

const soon = () => AbortSignal.timeout(300_000);
const own = (token: string) => ({ ...noCredentials, token });

describe('credentials of datasets', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], [fileRow('empty', 0n), fileRow('x', 5n)]);
    cluster.origin.originBase = undefined;
  });
  afterEach(async () => cluster.close());

  const set = (token: string, node = 'a') =>
    cluster.agent(node).credentialSharing.set('d', token === '' ? noCredentials : own(token), soon());
  const add = (node = 'a') =>
    cluster.agent(node).resolution.add('d', { source: directorySource, include: [], exclude: [] }, () => {}, soon());
  const tokenOf = (node: string) => {
    const { credentials } = cluster.agent(node);
    return credentials.has('d') ? credentials.of('d')?.token : undefined;
  };
  const tokens = () => ['a', 'b', 'c'].map(tokenOf);

  it('reach all agents, and can be replaced and removed', async () => {
    await set('one');
    assert.deepEqual(tokens(), ['one', 'one', 'one']);
    await add('b');
    assert.deepEqual(cluster.openedWith.slice(0, 1), ['one']);
    await set('two', 'c');
    assert.deepEqual(tokens(), ['two', 'two', 'two']);
    await set('');
    assert.deepEqual(tokens(), [undefined, undefined, undefined]);
    await until(() => cluster.agent('b').datasets.mirror.get('d')?.credentialed === false);
    assert.equal(cluster.agent('b').credentials.of('d'), undefined);
  });

  it('ask no other agent where there never were any', async () => {
    const asked: string[] = [];
    for (const node of ['b', 'c']) cluster.agent(node).credentialSharing.take = () => void asked.push(node);
    await set('');
    await add();
    await set('');
    assert.deepEqual(asked, []);
    await set('one');
    await set('');
    assert.deepEqual(asked, ['b', 'c', 'b', 'c']);
  });

  it('are forgotten where some were left when the dataset comes without them', async () => {
    cluster.agent('b').credentialSharing.take('d', own('left from before'));
    await set('');
    await add();
    await until(() => tokenOf('b') === undefined);
  });

  it('reach agents that were unreachable at first', async () => {
    cluster.unreachable.add('c');
    await set('one');
    await set('two');
    assert.deepEqual(tokens(), ['two', 'two', undefined]);
    cluster.unreachable.delete('c');
    await until(() => tokenOf('c') === 'two');
  });

  it('are requested by a restarted agent until a peer supplies them', async () => {
    await set('one');
    await add();
    await cluster.remove('c', 'crash');
    cluster.unreachable.add('c');
    await cluster.add('c');
    assert.throws(() => cluster.agent('c').credentials.of('d'), {
      code: 'Unavailable',
      message: /has not received the credentials of dataset d/,
    });
    cluster.unreachable.delete('c');
    await until(() => tokenOf('c') === 'one');
  });

  it('are requested from all agents when one lacks those of mirrors, as an earlier release does', async () => {
    const mirror = parseSource('https://mirror.example/m/');
    const mirrors = { mirrors: [{ mirror, credentials: own('for it') }] };
    await cluster.agent('a').credentialSharing.set('d', { ...own('one'), mirrors }, soon());
    const source = { ...directorySource, mirrors: { sources: [mirror], credentialed: [0], sourceHasNone: false } };
    await cluster.agent('a').resolution.add('d', { source, include: [], exclude: [] }, () => {}, soon());
    cluster.agent('a').credentialSharing.take('d', own('one'));
    const restart = async () => {
      await cluster.remove('c', 'crash');
      await cluster.add('c');
      await until(() => tokenOf('c') === 'one');
      return cluster.agent('c').credentials.of('d')?.mirrors?.mirrors.length;
    };
    assert.equal(await restart(), 1);
    cluster.agent('b').credentialSharing.take('d', own('one'));
    assert.equal(await restart(), undefined, 'the source at least can be read');
  });

  it("return from the manager of the dataset when all agents have lost them; the node's identity is not used", async () => {
    await set('one');
    await add();
    for (const node of ['a', 'b', 'c']) await cluster.remove(node);
    for (const node of ['a', 'b', 'c']) await cluster.add(node);
    cluster.openedWith.length = 0;
    const adding = add('b');
    await elapse(100, 'the origin would be opened without credentials');
    assert.deepEqual(cluster.openedWith, []);
    await set('two', 'a');
    await adding;
    assert.ok(cluster.openedWith.length > 0);
    assert.deepEqual(new Set(cluster.openedWith), new Set(['two']));
  });

  it('are removed with their dataset', async () => {
    await set('one');
    await add();
    await cluster.agent('b').removal.remove('d', { evict: false }, soon());
    await until(() => tokens().every((token) => token === undefined));
  });

  it('must permit reading a byte before the dataset is ready', async () => {
    cluster.origin.readError = new HearthError('Unauthenticated', 'the model is gated; accept its conditions');
    await assert.rejects(add(), {
      code: 'PermissionDenied',
      message: 'the origin lists x, but refuses to serve it: the model is gated; accept its conditions',
    });
    const failed = (await cluster.agent('a').datasets.datasets.read('d'))?.value;
    assert.deepEqual([failed?.state, failed?.manifest, failed?.errorCode], ['Failed', '', 'PermissionDenied']);
    cluster.origin.readError = undefined;
    assert.equal((await add()).dataset.state, 'Ready');
    assert.deepEqual(cluster.origin.bytesRead, ['x', 'x']);
  });

  it('of a mirror are for that place alone, in any order of mirrors', () => {
    const [a, b] = ['https://a.example/m/', 'hf://org/m'].map(parseSource);
    const mirrors = { mirrors: [{ mirror: b, credentials: own('for b') }] };
    const both = { ...own('first'), mirrors };
    assert.ok(a && b);
    assert.equal(ofMirror(both, a, false), undefined);
    assert.equal(ofMirror(both, b, true)?.token, 'for b');
    assert.equal(ofMirror(both, parseSource('hf://org/m?endpoint=https://huggingface.co'), true)?.token, 'for b');
    assert.throws(() => ofMirror(both, a, true), { code: 'Unauthenticated', message: /no credentials of the mirror/ });
    assert.deepEqual(ofFirst(both), { ...own('first'), mirrors: undefined });
    assert.equal(ofFirst({ ...noCredentials, mirrors }), undefined, 'the first source has none');
    assert.equal(isEmpty({ ...noCredentials, mirrors }), false);
    assert.equal(isEmpty(noCredentials), true);
  });

  it('of one kind are refused for origins of another kind', () => {
    const keys = { ...noCredentials, accessKeyId: 'i', secretAccessKey: 's' };
    assert.deepEqual(originCredentials(parseSource('s3://bucket'), keys), {
      credentials: { accessKeyId: 'i', secretAccessKey: 's' },
    });
    assert.deepEqual(originCredentials(parseSource('hf://org/m'), own('t')), { token: 't' });
    assert.throws(() => originCredentials(parseSource('hf://org/m'), keys), { message: /needs a token/ });
    assert.throws(() => originCredentials(parseSource('s3://bucket'), own('t')), { message: /needs an access key/ });
    assert.throws(() => originCredentials(parseSource('/models'), own('t')), { message: /takes no credentials/ });
  });
});
