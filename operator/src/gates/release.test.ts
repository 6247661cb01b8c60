import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { Pod } from '@hearth/common/kubernetes';
import { releasePod, withPlan } from './release.ts';
import { podOf } from './testing/objects.ts';

const gate = { name: 'hearth.storage/preload' };
const foreign = { name: 'example.com/quota' };
const signal = new AbortController().signal;
const plan = { kind: 'Preferred', hostnames: ['h1'] } as const;
const gated = (resourceVersion = '1', gates = [gate, foreign]) =>
  podOf('web', [], {
    metadata: { resourceVersion, name: 'web', namespace: 'team', uid: 'u' },
    spec: { schedulingGates: gates },
  });

interface Patch {
  metadata: { uid: string; resourceVersion: string };
  spec: { schedulingGates: { name: string }[]; affinity?: object };
}

/** Answers patches by the codes given, then takes them. */
function server(present: Pod | undefined, ...codes: ConstructorParameters<typeof HearthError>[0][]) {
  const patches: Patch[] = [];
  return {
    patches,
    get: async () => present as never,
    patch: async (_type: unknown, _name: string, _namespace: string | undefined, patch: unknown) => {
      patches.push(patch as Patch);
      const code = codes.shift();
      if (code !== undefined) throw new HearthError(code, 'refused');
      return {} as never;
    },
  };
}

const release = (api: ReturnType<typeof server>, affinity: Parameters<typeof releasePod>[2] = plan) =>
  releasePod({ api, logger: silentLogger }, gated(), affinity, signal);

describe('release of a pod', () => {
  it('opens our gate and writes the affinity in one update, for this version of the pod only', async () => {
    const api = server(gated());
    assert.equal(await release(api), true);
    assert.equal(api.patches.length, 1);
    const [patch] = api.patches;
    assert.deepEqual(patch?.metadata, { uid: 'u', resourceVersion: '1' });
    assert.deepEqual(patch?.spec.schedulingGates, [foreign]);
    assert.match(JSON.stringify(patch?.spec.affinity), /"values":\["h1"\]/);
    await release(api, { kind: 'Preferred', hostnames: [] });
    assert.equal(api.patches[1]?.spec.affinity, undefined);
  });

  it('looks again when another program was faster', async () => {
    const api = server(gated('7', [gate]), 'Conflict');
    assert.equal(await release(api), true);
    assert.deepEqual(
      api.patches.map(({ metadata, spec }) => [metadata.resourceVersion, spec.schedulingGates]),
      [
        ['1', [foreign]],
        ['7', []],
      ],
    );
  });

  it('has nothing to do when the pod has gone, is another one, or is open', async () => {
    assert.equal(await release(server(undefined, 'NotFound')), false);
    assert.equal(await release(server(undefined, 'Conflict')), false);
    const { metadata, ...rest } = gated();
    assert.equal(await release(server({ ...rest, metadata: { ...metadata, uid: 'other' } }, 'Conflict')), false);
    assert.equal(await release(server(gated('2', [foreign]), 'Conflict')), false);
  });

  for (const code of ['InvalidArgument', 'PermissionDenied'] as const) {
    it(`leaves the affinity out rather than the pod behind when the answer is ${code}`, async () => {
      const api = server(gated(), code);
      assert.equal(await release(api), true);
      assert.equal(api.patches[1]?.spec.affinity, undefined);
      await assert.rejects(release(server(gated(), code, code)), { code });
    });
  }

  it('gives up after some tries, and at once when the API server is away', async () => {
    const busy = server(gated(), 'Conflict', 'Conflict', 'Conflict', 'Conflict', 'Conflict');
    await assert.rejects(release(busy), { code: 'Conflict' });
    assert.equal(busy.patches.length, 5);
    await assert.rejects(release(server(gated(), 'Unavailable')), { code: 'Unavailable' });
  });
});

const here = { key: 'kubernetes.io/hostname', operator: 'In', values: ['h1', 'h2'] };
const hostnames = ['h1', 'h2'];
const zone = { key: 'zone', operator: 'In', values: ['a'] };
const required = (...nodeSelectorTerms: object[]) =>
  ({ requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } }) as never;

describe('affinity of a released pod', () => {
  it('is a wish of the highest weight beside those that there are', () => {
    const wish = { weight: 100, preference: { matchExpressions: [here] } };
    const plan = { kind: 'Preferred', hostnames } as const;
    assert.deepEqual(withPlan(undefined, plan), { preferredDuringSchedulingIgnoredDuringExecution: [wish] });
    const own = { weight: 5, preference: { matchExpressions: [zone] } };
    const present = { ...(required({ matchExpressions: [zone] }) as object) };
    assert.deepEqual(withPlan({ ...present, preferredDuringSchedulingIgnoredDuringExecution: [own] }, plan), {
      ...present,
      preferredDuringSchedulingIgnoredDuringExecution: [own, wish],
    });
  });

  it('is a requirement in every alternative, or the only one', () => {
    const plan = { kind: 'Required', hostnames } as const;
    assert.deepEqual(withPlan(undefined, plan), required({ matchExpressions: [here] }));
    const fields = [{ key: 'metadata.name', operator: 'In', values: ['n'] }];
    const present = required({ matchExpressions: [zone] }, { matchFields: fields }, {});
    assert.deepEqual(
      withPlan(present, plan),
      required({ matchExpressions: [zone, here] }, { matchFields: fields, matchExpressions: [here] }, {}),
    );
  });

  it('wishes for the nodes of the plan among those that are required', () => {
    const own = { weight: 5, preference: { matchExpressions: [zone] } };
    const present = { preferredDuringSchedulingIgnoredDuringExecution: [own] };
    const preferredHostnames = { ...here, values: ['h2'] };
    assert.deepEqual(withPlan(present, { kind: 'Required', hostnames, preferredHostnames: ['h2'] }), {
      ...(required({ matchExpressions: [here] }) as object),
      preferredDuringSchedulingIgnoredDuringExecution: [
        own,
        { weight: 100, preference: { matchExpressions: [preferredHostnames] } },
      ],
    });
  });

  it('stays as it is when the plan names no node', () => {
    assert.equal(withPlan(undefined, { kind: 'Required', hostnames: [] }), undefined);
  });
});
