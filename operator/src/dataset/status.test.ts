import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { datasets } from '@hearth/common/resources';
import { registrationOf } from './assessment.ts';
import type { UnusableSecret } from './named_secrets.ts';
import type { ObservedDataset } from './observation.ts';
import { choiceOf, credentialsDigest, noCredentials } from './registration.ts';
import type { Attempt } from './resolutions.ts';
import { statusOf } from './status.ts';
import { agentDataset, dataset, manifest, now, observed, readyStatus, residency, written } from './testing/fixtures.ts';

const fresh = dataset();
const known = { connected: true, dataset: agentDataset() };

function attempt(fields: Partial<Attempt>, of = fresh): Attempt {
  const choice = choiceOf(registrationOf(of, 'main', undefined));
  return { choice, credentials: credentialsDigest(undefined), running: undefined, outcome: undefined, ...fields };
}
const failure = (code: 'Unauthenticated' | 'Unavailable', message: string): Attempt['outcome'] => {
  return { kind: 'failed', error: new HearthError(code, message), at: now, failures: 1 };
};
const condition = (type: string, ...given: Parameters<typeof statusOf>) => {
  const one = statusOf(...given).conditions.find((found) => found.type === type);
  return one === undefined ? undefined : [one.status, one.reason, one.message];
};
const ready = (...given: Parameters<typeof statusOf>) => condition('Ready', ...given);

describe('status of a Dataset', () => {
  it('reports what agents know of it', () => {
    const nodes = [residency('n1', 400n), residency('n2', 1000n), residency('n3', 0n)];
    const present = agentDataset({ residency: nodes, warnings: ['WeakValidator: no ETag'] });
    const outcome = { kind: 'listed', dataset: present, at: now - 1500 } as const;
    const given = observed({ agents: { connected: true, dataset: present }, attempt: attempt({ outcome }) });
    const { conditions, ...figures } = statusOf(fresh, given);
    assert.deepEqual(figures, {
      cluster: 'main',
      revision: 'abc',
      manifest,
      files: 3,
      bytes: 1000,
      residentBytes: 1400,
      percent: 100,
      nodes: 1,
      residency: [
        { node: 'n2', residentBytes: 1000, percent: 100 },
        { node: 'n1', residentBytes: 400, percent: 40 },
      ],
      warnings: ['WeakValidator: no ETag'],
      refreshedAt: '2026-01-01T11:59:58Z',
    });
    assert.deepEqual(
      conditions.map(({ type, status, reason }) => [type, status, reason]),
      [
        ['Ready', 'True', 'Ready'],
        ['ClusterResolved', 'True', 'Resolved'],
        ['Registered', 'True', 'Registered'],
      ],
    );
    const written = conditions.map((one) => ({ ...one, lastTransitionTime: '2026-01-01T00:00:00Z' }));
    assert.ok(datasets.status.safeParse({ ...figures, conditions: written }).success);
  });

  it('stays below what the API server takes', () => {
    const nodes = Array.from({ length: 1200 }, (_, index) => residency(`n${index}`, 2n ** 62n));
    const warnings = Array.from({ length: 50 }, () => 'w'.repeat(5000));
    const present = agentDataset({ bytes: 2n ** 63n, files: 2n ** 63n, residency: nodes, warnings });
    const { conditions, ...figures } = statusOf(fresh, observed({ agents: { connected: true, dataset: present } }));
    assert.ok(conditions.length > 0);
    assert.ok(datasets.status.safeParse(figures).success);
  });

  it('says what is awaited, and how to allow it', () => {
    const reason = (fields: Partial<ObservedDataset>) => ready(fresh, observed(fields))?.slice(1);
    assert.deepEqual(reason({ choice: { kind: 'missing', name: 'main' } }), [
      'ClusterNotFound',
      'waits for StorageCluster main, which does not exist yet; create it, or correct spec.clusterRef',
    ]);
    assert.deepEqual(reason({ choice: { kind: 'ambiguous', names: ['a', 'b'] } }), [
      'ClusterAmbiguous',
      'waits for spec.clusterRef to name one of several StorageClusters (a, b)',
    ]);
    const secret = dataset({ secretRef: { name: 's' } });
    assert.deepEqual(ready(secret, observed({ secret: { kind: 'missing' } })), [
      'False',
      'SecretNotFound',
      'waits for the Secret team/s, which does not exist yet; create it',
    ]);
    assert.deepEqual(ready(secret, observed({ secret: { kind: 'forbidden', message: 'user x may not' } })), [
      'False',
      'SecretForbidden',
      'the operator may not read the Secret team/s; allow it with: kubectl create rolebinding ...',
    ]);
    const keys = { kind: 'keysMissing', keys: ['token'], present: ['password'] } as const;
    assert.deepEqual(ready(secret, observed({ secret: keys })), [
      'False',
      'SecretKeyMissing',
      'the Secret team/s has no usable value for token, which a source of kind hub needs; its keys are password',
    ]);
    assert.equal(condition('CredentialsReady', secret, observed({ secret: keys }))?.[1], 'SecretKeyMissing');
    assert.equal(condition('ClusterResolved', secret, observed({ secret: keys }))?.[0], 'True');
    const directory = dataset({ source: { directory: { path: '/etc' } } });
    assert.equal(ready(directory, observed())?.[1], 'DirectoryNotAllowed');
    assert.equal(ready(fresh, observed({ agents: undefined }))?.[1], 'AgentsUnavailable');
  });

  it('belongs to a cluster once agents there have been asked', () => {
    assert.equal(statusOf(fresh, observed({ agents: undefined })).cluster, undefined);
    assert.equal(statusOf(fresh, observed({ secret: { kind: 'missing' } })).cluster, undefined);
    assert.equal(statusOf(fresh, observed()).cluster, 'main');
    assert.equal(statusOf(dataset({}, readyStatus()), observed({ agents: undefined })).cluster, 'main');
  });

  it('shows how far the listing is', () => {
    assert.deepEqual(ready(fresh, observed()), ['False', 'Listing', 'agents are listing the origin']);
    const running = { filesListed: 12n, bytesListed: 3456n };
    const message = 'agents are listing the origin: 12 files, 3456 bytes so far';
    assert.deepEqual(ready(fresh, observed({ attempt: attempt({ running }) })), ['False', 'Listing', message]);
  });

  it("has the agent's code and sentence when the origin fails, also while it is tried again", () => {
    const outcome = failure('Unauthenticated', 'the hub answered 401 for o/m');
    const expected = ['False', 'Unauthenticated', 'the hub answered 401 for o/m'];
    assert.deepEqual(ready(fresh, observed({ attempt: attempt({ outcome }) })), expected);
    const running = { filesListed: 1n, bytesListed: 1n };
    assert.deepEqual(ready(fresh, observed({ attempt: attempt({ outcome, running }) })), expected);
  });

  it('is not Ready by what agents know of it from before, until its own look has succeeded', () => {
    assert.equal(ready(fresh, observed({ agents: known }))?.[1], 'Listing');
    assert.equal(
      ready(fresh, observed({ agents: known, attempt: attempt({ outcome: failure('Unavailable', 'x') }) }))?.[1],
      'Unavailable',
    );
  });

  it('stays as it was written after a restart of the operator', () => {
    const settled = dataset(
      {},
      readyStatus({ revision: 'abc', residentBytes: 0, percent: 0, nodes: 0, residency: [] }),
    );
    const again = statusOf(settled, observed({ agents: known }));
    const message = { Ready: again.conditions[0]?.message };
    assert.match(message.Ready ?? '', /^revision abc: 3 files, 1000 bytes$/);
    for (const agents of [undefined, { connected: false, dataset: undefined }]) {
      const { conditions, ...figures } = statusOf(settled, observed({ agents }));
      const { conditions: before, ...kept } = settled.status ?? {};
      assert.deepEqual(figures, kept);
      const bare = before?.map(({ type, status, reason }) => [type, status, reason]);
      assert.deepEqual(
        conditions.map(({ type, status, reason }) => [type, status, reason]),
        bare,
      );
    }
    const failed = dataset({}, { cluster: 'main', conditions: [written('Ready', 'False', 'Unauthenticated', '401')] });
    assert.deepEqual(ready(failed, observed({ agents: undefined })), ['False', 'Unauthenticated', '401']);
    assert.deepEqual(ready(failed, observed()), ['False', 'Unauthenticated', '401']);
    const refused = dataset({}, { conditions: [written('Ready', 'False', 'ClusterNotFound')] });
    assert.equal(ready(refused, observed({ agents: undefined }))?.[1], 'AgentsUnavailable');
  });

  it('serves the revision there is while a changed spec is listed, and not when that fails', () => {
    const changed = dataset({ include: ['x'] }, readyStatus(), 2);
    assert.equal(ready(changed, observed({ agents: known }))?.[0], 'True');
    assert.deepEqual(condition('Registered', changed, observed({ agents: known }))?.slice(0, 2), ['False', 'Listing']);
    const outcome = failure('Unavailable', 'no route');
    assert.equal(
      ready(changed, observed({ agents: known, attempt: attempt({ outcome }, changed) }))?.[1],
      'Unavailable',
    );
  });

  it('is not Ready when agents have forgotten it, or its files are not as they were listed', () => {
    const settled = dataset({}, readyStatus());
    assert.equal(ready(settled, observed())?.[1], 'Listing');
    const message = 'the origin no longer has a.bin';
    const present = agentDataset({ state: 'Failed', message });
    const given = observed({ agents: { connected: true, dataset: present } });
    assert.deepEqual(ready(settled, given), ['False', 'OriginChanged', message]);
  });

  it('reports a refresh that failed beside being Ready', () => {
    const settled = dataset({ refresh: { interval: '10m' } }, readyStatus());
    assert.deepEqual(condition('Refreshed', settled, observed({ agents: known })), [
      'True',
      'Refreshed',
      'agents ask the origin every 10m',
    ]);
    const given = observed({
      agents: known,
      attempt: attempt({ outcome: failure('Unavailable', 'no route') }, settled),
    });
    assert.equal(ready(settled, given)?.[0], 'True');
    assert.deepEqual(condition('Refreshed', settled, given), [
      'False',
      'Unavailable',
      'the last listing of the origin failed: no route',
    ]);
    assert.equal(statusOf(settled, given).refreshedAt, '2026-01-01T11:59:00Z');
  });

  it('stays Ready when agents do not take renewed credentials, and says so', () => {
    const settled = dataset({ secretRef: { name: 's' } }, readyStatus());
    const credentials = { token: 't', accessKeyId: '', secretAccessKey: '', sessionToken: '' };
    const sent = { digest: 'd', at: now, refusal: new HearthError('Unavailable', 'no agent answers') };
    const given = observed({ agents: known, secret: { kind: 'found', credentials }, sent });
    assert.equal(ready(settled, given)?.[0], 'True');
    assert.deepEqual(condition('CredentialsReady', settled, given), [
      'False',
      'Unavailable',
      'agents refused the credentials: no agent answers',
    ]);
  });

  it('says which sources are put aside, and on which nodes', () => {
    const mirrored = dataset({ mirrors: [{ directory: { path: '/data/copy' } }] }, readyStatus());
    const given = (...aside: string[]) => {
      const present = agentDataset({ residency: [{ ...residency('n1', 1n), sourcesAside: aside }] });
      return observed({ agents: { connected: true, dataset: present } });
    };
    assert.deepEqual(condition('AllSourcesUsed', mirrored, given()), ['True', 'Used', 'every node uses all sources']);
    assert.deepEqual(condition('AllSourcesUsed', mirrored, given('the first source: no connection')), [
      'False',
      'SourceAside',
      'agents read from other sources; on n1: the first source: no connection',
    ]);
    assert.equal(condition('AllSourcesUsed', dataset({}, readyStatus()), given()), undefined);
  });

  it('says that reads wait for an origin that is away, and when it answers again', () => {
    const away = 'the origin: reads wait for it since 2026-01-01T12:00:00Z, each for up to 300 s: refused';
    const given = (...sourcesAside: string[]) => {
      const present = agentDataset({ residency: [{ ...residency('n1', 1n), sourcesAside }] });
      return observed({ agents: { connected: true, dataset: present } });
    };
    assert.equal(condition('OriginAnswers', dataset({}, readyStatus()), given()), undefined);
    assert.deepEqual(condition('OriginAnswers', dataset({}, readyStatus()), given(away)), [
      'False',
      'OriginAway',
      `on n1: ${away}`,
    ]);
    const told = dataset({}, readyStatus({ conditions: [written('OriginAnswers', 'False', 'OriginAway')] }));
    assert.deepEqual(condition('OriginAnswers', told, given()), [
      'True',
      'OriginAnswers',
      'no read waits for the origin',
    ]);
  });

  it('is Ready without the Secret of a mirror, and says which one is lacking', () => {
    const mirror = { s3: { bucket: 'copies', prefix: '', pathStyle: false }, secretRef: { name: 'copies' } };
    const mirrored = dataset({ mirrors: [mirror] }, readyStatus());
    const about = { name: 'copies', kind: 's3' as const, mirror };
    const secret = { kind: 'found' as const, credentials: noCredentials };
    const lacking = (view: UnusableSecret['view']) =>
      observed({ agents: known, secret, unusableSecrets: [{ ...about, view }] });
    const missing = lacking({ kind: 'missing' });
    assert.deepEqual(condition('CredentialsReady', mirrored, missing), [
      'False',
      'SecretNotFound',
      'agents do not read mirrors: waits for the Secret team/copies, which does not exist yet; create it',
    ]);
    assert.equal(ready(mirrored, missing)?.[0], 'True');
    const keys = lacking({ kind: 'keysMissing', keys: ['accessKeyId'], present: [] });
    assert.match(condition('CredentialsReady', mirrored, keys)?.[2] ?? '', /a source of kind s3 needs/);
  });

  it('waits with mirrors until no agent is of a release that would leave them out', () => {
    const mirrors = [{ directory: { path: '/data/copy' } }];
    const agents = { connected: true, dataset: undefined, withoutMirrors: ['n2'] };
    assert.deepEqual(ready(dataset({ mirrors }), observed({ agents })), [
      'False',
      'AgentsTooOld',
      'waits until the agents of n2 are upgraded: their release knows no mirrors',
    ]);
    assert.equal(ready(dataset({}), observed({ agents }))?.[1], 'Listing');
  });

  it('waits with the layout of a hub cache until no agent is of a release that would list files', () => {
    const agents = { connected: true, dataset: undefined, withoutHubLayout: ['n2', 'n3'] };
    const repository = { endpoint: 'https://hub', repoType: 'model', repo: 'o/m', revision: 'main' } as const;
    const laidOut = (layout: 'files' | 'hub') =>
      ready(dataset({ source: { hub: { ...repository, layout } } }), observed({ agents }));
    assert.deepEqual(laidOut('hub'), [
      'False',
      'AgentsTooOld',
      'waits until the agents of n2, n3 are upgraded: their release knows no layout of a hub cache',
    ]);
    assert.equal(laidOut('files')?.[1], 'Listing');
  });

  it('holds figures that change all the time, but never those of another revision', () => {
    const settled = dataset({}, readyStatus({ residentBytes: 10, percent: 1, nodes: 0, residency: [] }));
    const moving = agentDataset({ residency: [residency('n1', 500n)] });
    const given = (present: typeof moving) => observed({ agents: { connected: true, dataset: present }, holdMs: 3000 });
    assert.equal(statusOf(settled, given(moving)).residentBytes, 10);
    assert.equal(statusOf(settled, { ...given(moving), holdMs: 0 }).residentBytes, 500);
    assert.equal(statusOf(settled, given({ ...moving, manifest: 'b'.repeat(64) })).residentBytes, 500);
    assert.equal(statusOf(settled, given({ ...moving, warnings: ['w'] })).warnings?.length, 1);
  });
});
