import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { KubernetesClient, Secret } from '@hearth/common/kubernetes';
import { credentialsOf, grantCommand, SecretReader } from './index.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('credentials in a Secret', () => {
  it('are the keys that the kind of source has', () => {
    assert.deepEqual(credentialsOf('hub', { token: base64(' hf_abc\n'), other: base64('x') }), {
      kind: 'found',
      credentials: { token: 'hf_abc', accessKeyId: '', secretAccessKey: '', sessionToken: '' },
    });
    const keys = { accessKeyId: base64('id'), secretAccessKey: base64('key'), token: base64('not for S3') };
    assert.deepEqual(credentialsOf('s3', keys), {
      kind: 'found',
      credentials: { token: '', accessKeyId: 'id', secretAccessKey: 'key', sessionToken: '' },
    });
  });

  it('names keys that are missing, empty or not text', () => {
    assert.deepEqual(credentialsOf('s3', { secretAccessKey: base64('\n'), region: base64('eu') }), {
      kind: 'keysMissing',
      keys: ['accessKeyId', 'secretAccessKey'],
      present: ['region', 'secretAccessKey'],
    });
    assert.equal(credentialsOf('http', { token: base64('a\r\nX-Evil: 1') }).kind, 'keysMissing');
    assert.equal(
      credentialsOf('http', { token: Buffer.from([0xff, 0xfe, 0x41]).toString('base64') }).kind,
      'keysMissing',
    );
  });
});

describe('command that lets the operator read Secrets', () => {
  it('is complete', () => {
    const grant = {
      clusterRole: 'hearth-secrets',
      serviceAccount: { namespace: 'hearth-system', name: 'hearth-operator' },
    };
    assert.equal(
      grantCommand(grant, 'team-a'),
      'kubectl create rolebinding hearth-secrets --namespace=team-a --clusterrole=hearth-secrets --serviceaccount=hearth-system:hearth-operator',
    );
  });
});

describe('secret reader', () => {
  let now: number;
  let answers: (Secret | undefined | HearthError)[];
  let asked: string[];
  let reader: SecretReader;
  beforeEach(() => {
    now = 1_000_000;
    answers = [];
    asked = [];
    const get = async (_type: unknown, name: string, namespace?: string) => {
      asked.push(`${namespace}/${name}`);
      const answer = answers.shift();
      if (answer instanceof HearthError) throw answer;
      return answer;
    };
    reader = new SecretReader({ api: { get: get as unknown as KubernetesClient['get'] }, now: () => now });
  });

  it('reads again every five minutes, and once for all who ask at the same time', async () => {
    answers = [{ data: { token: 'YQ==' } }, { data: { token: 'Yg==' } }];
    const [first, second] = await Promise.all([reader.get('a', 's'), reader.get('a', 's')]);
    assert.deepEqual(first, { kind: 'found', data: { token: 'YQ==' } });
    assert.equal(second, first);
    assert.equal(reader.staleInMs('a', 's'), 300_000);
    now += 299_999;
    await reader.get('a', 's');
    assert.deepEqual(asked, ['a/s']);
    now += 1;
    assert.deepEqual(await reader.get('a', 's'), { kind: 'found', data: { token: 'Yg==' } });
  });

  it('distinguishes missing from forbidden, and looks again soon', async () => {
    answers = [undefined, new HearthError('PermissionDenied', 'secrets "s" is forbidden'), { data: {} }];
    assert.deepEqual(await reader.get('a', 's'), { kind: 'missing' });
    now += 15_000;
    assert.deepEqual(await reader.get('a', 's'), { kind: 'forbidden', message: 'secrets "s" is forbidden' });
    now += 15_000;
    assert.deepEqual(await reader.get('a', 's'), { kind: 'found', data: {} });
  });

  it('keeps what it knows while the API server is away', async () => {
    const away = new HearthError('Unavailable', 'connection refused');
    answers = [away, { data: { token: 'YQ==' } }, away];
    assert.equal((await reader.get('a', 's')).kind, 'unavailable');
    now += 15_000;
    await reader.get('a', 's');
    now += 300_000;
    assert.deepEqual(await reader.get('a', 's'), { kind: 'found', data: { token: 'YQ==' } });
    assert.equal(asked.length, 3);
  });

  it('looks again soon when what it found cannot be used', async () => {
    answers = [{ data: {} }, { data: { token: 'YQ==' } }];
    await reader.get('a', 's');
    reader.retrySoon('a', 's');
    assert.equal(reader.staleInMs('a', 's'), 15_000);
    now += 15_000;
    assert.deepEqual(await reader.get('a', 's'), { kind: 'found', data: { token: 'YQ==' } });
  });

  it('forgets', async () => {
    answers = [undefined, undefined];
    await reader.get('a', 's');
    reader.forget('a', 's');
    assert.equal(reader.staleInMs('a', 's'), 0);
    await reader.get('a', 's');
    assert.equal(asked.length, 2);
  });
});
