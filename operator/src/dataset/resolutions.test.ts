import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { AddDatasetProgress, AddDatasetRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import { registrationOf } from './assessment.ts';
import { noCredentials } from './registration.ts';
import { ListingPlaces, Resolutions } from './resolutions.ts';
import { FakeAgents } from './testing/fake_agents.ts';
import { agentDataset, dataset } from './testing/fixtures.ts';

type Message = Partial<AddDatasetProgress>;

describe('looks at origins', () => {
  let agents: FakeAgents;
  let resolutions: Resolutions;
  let changes: string[];
  /** One for each listing: what it reports next, or how it fails. */
  let listings: { request: AddDatasetRequest; next: (message: Message | HearthError) => void; signal: AbortSignal }[];

  const registration = (include: string[] = []) => registrationOf(dataset({ include }), 'main', undefined);
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const start = (maxConcurrent = 10) => {
    changes = [];
    listings = [];
    agents = new FakeAgents('main', async function* (request, signal) {
      const queue: (Message | HearthError)[] = [];
      let wake = () => {};
      const next = (message: Message | HearthError) => {
        queue.push(message);
        wake();
      };
      listings.push({ request, next, signal });
      for (;;) {
        const message = queue.shift();
        if (message instanceof HearthError) throw message;
        if (message !== undefined) yield message;
        else await new Promise<void>((resolve) => (wake = resolve));
        if (message?.dataset !== undefined) return;
      }
    });
    agents.connect();
    const changed = (key: string) => void changes.push(key);
    resolutions = new Resolutions({ agents, changed, logger: silentLogger, now: () => 1000, maxConcurrent });
  };

  it('report how far they are and how they ended', async () => {
    start();
    resolutions.start('k', registration());
    await settle();
    listings[0]?.next({ filesListed: 5n, bytesListed: 50n });
    await settle();
    assert.deepEqual(resolutions.get('k')?.running, { filesListed: 5n, bytesListed: 50n });
    listings[0]?.next({ dataset: agentDataset() });
    await settle();
    const attempt = resolutions.get('k');
    assert.deepEqual(listings[0]?.request.credentials, noCredentials, 'agents forget those of an earlier spec');
    assert.equal(attempt?.running, undefined);
    assert.deepEqual(attempt?.outcome, { kind: 'listed', dataset: agentDataset(), at: 1000 });
    assert.deepEqual(changes, ['k', 'k']);
  });

  it('count failures in a row, and forget them with another choice of files', async () => {
    start();
    const fail = async (include: string[] = []) => {
      resolutions.start('k', registration(include));
      await settle();
      listings.at(-1)?.next(new HearthError('Unavailable', 'no route'));
      await settle();
      const outcome = resolutions.get('k')?.outcome;
      return outcome?.kind === 'failed' ? [outcome.failures, outcome.error.message] : undefined;
    };
    assert.deepEqual(await fail(), [1, 'no route']);
    assert.deepEqual(await fail(), [2, 'no route']);
    assert.deepEqual(await fail(['x']), [1, 'no route']);
  });

  it('run once at a time for a Dataset; another choice ends the one under way', async () => {
    start();
    resolutions.start('k', registration());
    resolutions.start('k', registration());
    await settle();
    assert.equal(listings.length, 1);
    resolutions.start('k', registration(['x']));
    await settle();
    assert.deepEqual([listings.length, listings[0]?.signal.aborted, listings[1]?.signal.aborted], [2, true, false]);
    listings[0]?.next(new HearthError('Cancelled', 'given up'));
    listings[1]?.next({ dataset: agentDataset() });
    await settle();
    assert.equal(resolutions.get('k')?.outcome?.kind, 'listed');
  });

  it('are bounded in number, in the order of their start', async () => {
    start(2);
    for (const key of ['a', 'b', 'c', 'd']) resolutions.start(key, { ...registration(), name: key });
    await settle();
    assert.deepEqual(
      listings.map(({ request }) => request.name),
      ['a', 'b'],
    );
    listings[1]?.next({ dataset: agentDataset() });
    await settle();
    assert.deepEqual(
      listings.map(({ request }) => request.name),
      ['a', 'b', 'c'],
    );
    resolutions.forget('d');
    listings[0]?.next({ dataset: agentDataset() });
    listings[2]?.next({ dataset: agentDataset() });
    await settle();
    assert.equal(listings.length, 3);
    assert.equal(resolutions.get('d'), undefined);
  });

  it('replace what agents know by that name with other patterns, and keep its bytes', async () => {
    start();
    agents.know('team.llama', agentDataset());
    resolutions.start('k', registration(['x']));
    await settle();
    listings[0]?.next(new HearthError('AlreadyExists', 'other patterns'));
    await settle();
    assert.deepEqual(agents.called('removeDataset'), [{ name: 'team.llama', evict: false, nodes: [] }]);
    listings[1]?.next({ dataset: agentDataset() });
    await settle();
    assert.equal(resolutions.get('k')?.outcome?.kind, 'listed');
  });

  it('say so when the name cannot be had because the old choice is in use', async () => {
    start();
    agents.failing.set('removeDataset', new HearthError('InUse', 'it is mounted on n1'));
    resolutions.start('k', registration(['x']));
    await settle();
    listings[0]?.next(new HearthError('AlreadyExists', 'other patterns'));
    await settle();
    const outcome = resolutions.get('k')?.outcome;
    assert.ok(outcome?.kind === 'failed');
    assert.equal(outcome.error.code, 'InUse');
    assert.match(outcome.error.message, /cannot choose its files again yet: it is mounted on n1/);
  });

  it('sends nothing after the end', async () => {
    start();
    resolutions.start('k', registration());
    await settle();
    resolutions.close();
    assert.equal(listings[0]?.signal.aborted, true);
    listings[0]?.next({ dataset: agentDataset() });
    await settle();
    assert.deepEqual(changes, []);
  });
});

describe('places for listings', () => {
  it('are given in order, and to one namespace three of four at most', async () => {
    const places = new ListingPlaces(4);
    const had: string[] = [];
    const take = (name: string) => void places.take(name.slice(0, 1)).then(() => had.push(name));
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'a5']) take(name);
    await settle();
    assert.deepEqual(had.splice(0), ['a1', 'a2', 'a3', 'b1']);
    places.give('b');
    await settle();
    assert.deepEqual(had.splice(0), ['b2'], 'a4 came first, but its namespace has its share');
    places.give('a');
    await settle();
    assert.deepEqual(had.splice(0), ['a4']);
    places.give('b');
    await settle();
    assert.deepEqual(had.splice(0), []);
    places.give('a');
    await settle();
    assert.deepEqual(had.splice(0), ['a5']);
  });
});
