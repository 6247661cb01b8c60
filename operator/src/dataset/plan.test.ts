import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { retryDelayMs } from '../reconciler/index.ts';
import { registrationOf } from './assessment.ts';
import { plan, requeueAfterMs } from './plan.ts';
import { choiceOf, credentialsDigest, noCredentials } from './registration.ts';
import type { Attempt } from './resolutions.ts';
import { agentDataset, dataset, now, observed, readyStatus, residency, written } from './testing/fixtures.ts';

const token: Credentials = { ...noCredentials, token: 'hf_secret' };
const fresh = dataset();
const withSecret = dataset({ secretRef: { name: 's' } }, readyStatus());
const found = { kind: 'found', credentials: token } as const;

function attempt(fields: Partial<Attempt> = {}, of = fresh, credentials?: Credentials): Attempt {
  const registration = registrationOf(of, 'main', credentials);
  const digest = credentialsDigest(credentials);
  return { choice: choiceOf(registration), credentials: digest, running: undefined, outcome: undefined, ...fields };
}
const failed = (agoMs: number, failures: number): Attempt['outcome'] => {
  return { kind: 'failed', error: new HearthError('Unavailable', 'no route'), at: now - agoMs, failures };
};
const kindsOf = (...given: Parameters<typeof plan>) => plan(...given).map((action) => action.kind);

describe('plan for a Dataset', () => {
  it('looks at the origin of one that agents do not know', () => {
    const [action] = plan(fresh, observed());
    assert.ok(action?.kind === 'list');
    const { name, cluster, include, source } = action.registration;
    assert.deepEqual([name, cluster, include], ['team.llama', 'main', []]);
    assert.equal(source.kind?.$case, 'hub');
  });

  it('does nothing while it is refused, and gives up what is under way', () => {
    const refusals = [
      observed({ choice: { kind: 'missing', name: 'main' } }),
      observed({ choice: { kind: 'ambiguous', names: ['a', 'b'] } }),
      observed({ secret: { kind: 'missing' } }),
      observed({ secret: { kind: 'forbidden', message: 'no' } }),
      observed({ secret: { kind: 'keysMissing', keys: ['token'], present: [] } }),
    ];
    for (const refused of refusals) assert.deepEqual(plan(fresh, refused), []);
    const running = attempt({ running: { filesListed: 1n, bytesListed: 1n } });
    assert.deepEqual(kindsOf(fresh, observed({ choice: { kind: 'missing', name: 'x' }, attempt: running })), ['abort']);
  });

  it('refuses directories before any agent is asked', () => {
    const outside = dataset({ source: { directory: { path: '/etc' } } });
    assert.deepEqual(plan(outside, observed()), []);
    assert.deepEqual(kindsOf(dataset({ source: { directory: { path: '/data/x' } } }), observed()), ['list']);
  });

  it('waits for agents and for a Secret that cannot be read now', () => {
    assert.deepEqual(plan(fresh, observed({ agents: undefined })), []);
    assert.deepEqual(plan(fresh, observed({ agents: { connected: false, dataset: undefined } })), []);
    assert.deepEqual(plan(fresh, observed({ secret: { kind: 'unavailable', message: 'away' } })), []);
  });

  it('has nothing to do for one that is registered, also after a restart', () => {
    const agents = { connected: true, dataset: agentDataset() };
    const settled = dataset({}, readyStatus());
    assert.deepEqual(plan(settled, observed({ agents })), []);
    assert.equal(requeueAfterMs(settled, observed({ agents })), undefined);
  });

  it('lets one look go on', () => {
    const running = attempt({ running: { filesListed: 0n, bytesListed: 0n } });
    assert.deepEqual(plan(fresh, observed({ attempt: running })), []);
  });

  it('looks again when the spec has changed, the store is new, or files are not as listed', () => {
    const agents = { connected: true, dataset: agentDataset() };
    assert.deepEqual(kindsOf(dataset({ include: ['*.bin'] }, readyStatus(), 2), observed({ agents })), ['list']);
    const settled = dataset({}, readyStatus());
    assert.deepEqual(kindsOf(settled, observed()), ['list']);
    const changed = agentDataset({ state: 'Failed', message: 'differs' });
    assert.deepEqual(kindsOf(settled, observed({ agents: { connected: true, dataset: changed } })), ['list']);
    const listing = agentDataset({ state: 'Resolving', manifest: '' });
    assert.deepEqual(kindsOf(settled, observed({ agents: { connected: true, dataset: listing } })), ['list']);
  });

  it('gives agents ten seconds to notify one another of what was found', () => {
    const settled = dataset({}, readyStatus());
    const listed = (agoMs: number) =>
      attempt({ outcome: { kind: 'listed', dataset: agentDataset(), at: now - agoMs } });
    assert.deepEqual(plan(settled, observed({ attempt: listed(9_000) })), []);
    assert.equal(requeueAfterMs(settled, observed({ attempt: listed(9_000) })), 2_000);
    assert.deepEqual(kindsOf(settled, observed({ attempt: listed(10_000) })), ['list']);
  });

  it('tries a failed origin later and later, at most every five minutes', () => {
    assert.deepEqual([1, 2, 3, 8, 9, 100].map(retryDelayMs), [2_000, 4_000, 8_000, 256_000, 300_000, 300_000]);
    assert.deepEqual(plan(fresh, observed({ attempt: attempt({ outcome: failed(7_000, 3) }) })), []);
    assert.equal(requeueAfterMs(fresh, observed({ attempt: attempt({ outcome: failed(7_000, 3) }) })), 2_000);
    assert.deepEqual(kindsOf(fresh, observed({ attempt: attempt({ outcome: failed(8_000, 3) }) })), ['list']);
  });

  it('tries at once with other credentials or another choice of files', () => {
    const outcome = failed(0, 9);
    const other = attempt({ outcome }, withSecret, { ...token, token: 'hf_old' });
    assert.deepEqual(kindsOf(withSecret, observed({ attempt: other, secret: found, sent: undefined })), ['list']);
    const patterns = dataset({ include: ['a'] }, undefined, 2);
    assert.deepEqual(kindsOf(patterns, observed({ attempt: attempt({ outcome }) })), ['list']);
  });

  it('refreshes in its interval, and not sooner after a failure than the back-off says', () => {
    const agents = { connected: true, dataset: agentDataset() };
    const every = (interval: string) => dataset({ refresh: { interval } }, readyStatus());
    assert.deepEqual(kindsOf(every('60s'), observed({ agents })), ['list']);
    assert.deepEqual(plan(every('61s'), observed({ agents })), []);
    assert.equal(requeueAfterMs(every('90s'), observed({ agents })), 31_000);
    const tried = attempt({ outcome: failed(1_000, 2) });
    assert.deepEqual(plan(every('60s'), observed({ agents, attempt: tried })), []);
    assert.equal(requeueAfterMs(every('60s'), observed({ agents, attempt: tried })), 4_000);
  });

  it('gives credentials when they changed, and again every five minutes', () => {
    const agents = { connected: true, dataset: agentDataset() };
    const digest = credentialsDigest(token);
    const at = (agoMs: number, sent = digest) => {
      return observed({ agents, secret: found, secretStaleInMs: 70_000, sent: { digest: sent, at: now - agoMs } });
    };
    assert.deepEqual(kindsOf(withSecret, observed({ agents, secret: found })), ['sendCredentials']);
    assert.deepEqual(plan(withSecret, at(299_999)), []);
    assert.deepEqual(kindsOf(withSecret, at(300_000)), ['sendCredentials']);
    assert.deepEqual(kindsOf(withSecret, at(0, 'other')), ['sendCredentials']);
    assert.equal(requeueAfterMs(withSecret, at(0)), 71_000);
    assert.equal(requeueAfterMs(withSecret, at(290_000)), 11_000);
  });

  it('gives credentials again soon when agents did not take them', () => {
    const agents = { connected: true, dataset: agentDataset() };
    const refusal = new HearthError('Unavailable', 'no agent answers');
    const at = (agoMs: number) => {
      const sent = { digest: credentialsDigest(token), at: now - agoMs, refusal };
      return observed({ agents, secret: found, secretStaleInMs: 70_000, sent });
    };
    assert.deepEqual(plan(withSecret, at(9_999)), []);
    assert.deepEqual(kindsOf(withSecret, at(10_000)), ['sendCredentials']);
    assert.equal(requeueAfterMs(withSecret, at(4_000)), 7_000);
  });

  it('reports another revision, and an origin that could not be asked for one', () => {
    const other = agentDataset({ manifest: 'b'.repeat(64), revision: 'def' });
    const [told] = plan(dataset({}, readyStatus()), observed({ agents: { connected: true, dataset: other } }));
    assert.ok(told?.kind === 'event');
    assert.equal(`${told.type} ${told.reason}`, 'Normal NewRevision');
    assert.match(told.message, /^revision def with 3 files, 1000 bytes; pods that run keep/);
    const refresh = { interval: '10m' };
    const refreshed = (status: 'True' | 'False') => {
      const conditions = [written('Registered', 'True', 'Registered'), written('Refreshed', status, 'x')];
      const settled = dataset({ refresh }, readyStatus({ conditions }));
      const agents = { connected: true, dataset: agentDataset() };
      return plan(settled, observed({ agents, attempt: attempt({ outcome: failed(0, 1) }, settled) }));
    };
    assert.deepEqual(refreshed('True'), [
      { kind: 'event', type: 'Warning', reason: 'RefreshFailed', message: 'no route' },
    ]);
    assert.deepEqual(refreshed('False'), []);
  });

  it('tells once that reads wait for the origin, and once that they do not', () => {
    const given = (...sourcesAside: string[]) => {
      const present = agentDataset({ residency: [{ ...residency('n1', 1n), sourcesAside }] });
      return observed({ agents: { connected: true, dataset: present } });
    };
    const told = (status: 'True' | 'False') => {
      const conditions = [written('Registered', 'True', 'Registered'), written('OriginAnswers', status, 'x')];
      return dataset({}, readyStatus({ conditions }));
    };
    assert.deepEqual(plan(dataset({}, readyStatus()), given('the origin: away')), [
      { kind: 'event', type: 'Warning', reason: 'OriginAway', message: 'on n1: the origin: away' },
    ]);
    assert.deepEqual(plan(told('False'), given('the origin: away')), []);
    assert.deepEqual(plan(told('False'), given()), [
      { kind: 'event', type: 'Normal', reason: 'OriginAnswers', message: 'no read waits for the origin' },
    ]);
    assert.deepEqual(plan(told('True'), given()), []);
  });

  it('has agents forget credentials that the spec no longer names, and sends none where there are none', () => {
    const agents = { connected: true, dataset: agentDataset() };
    const settled = dataset({}, readyStatus());
    const [action] = plan(settled, observed({ agents, sent: { digest: credentialsDigest(token), at: now } }));
    assert.ok(action?.kind === 'sendCredentials');
    assert.equal(action.registration.credentials, undefined);
    assert.deepEqual(plan(settled, observed({ agents })), []);
  });

  it('gives no credentials of mirrors while no agent takes them, and nothing in their place', () => {
    const mirrors = { mirrors: [{ mirror: undefined, credentials: token }] };
    const settled = dataset({ mirrors: [{ directory: { path: '/data/m' } }], secretRef: { name: 's' } }, readyStatus());
    const given = (credentials: Credentials, noneTakesMirrors: boolean, sent?: Credentials) =>
      observed({
        agents: { connected: true, dataset: agentDataset(), noneTakesMirrors, withoutMirrors: ['n1'] },
        secret: { kind: 'found', credentials },
        secretStaleInMs: 70_000,
        sent: sent && { digest: credentialsDigest(sent), at: now - 1_000_000 },
      });
    const sentBy = (state: ReturnType<typeof observed>) =>
      plan(settled, state).map((action) => action.kind === 'sendCredentials' && action.registration.credentials);
    assert.deepEqual(sentBy(given({ ...token, mirrors }, true)), [token]);
    assert.deepEqual(sentBy(given({ ...token, mirrors }, false)), [{ ...token, mirrors }]);
    const alone = { ...noCredentials, mirrors };
    assert.deepEqual(sentBy(given(alone, true)), []);
    assert.deepEqual(sentBy(given(alone, true, alone)), []);
    assert.equal(requeueAfterMs(settled, given(alone, true, alone)), 71_000);
    assert.deepEqual(sentBy(given(alone, false, token)), [alone]);
  });

  it('looks when it was refused before and no longer is', () => {
    const refused = { conditions: [written('Ready', 'False', 'SecretNotFound'), written('Registered', 'False', 'x')] };
    assert.deepEqual(kindsOf(dataset({ secretRef: { name: 's' } }, refused), observed({ secret: found })), ['list']);
  });
});
