import assert from 'node:assert/strict';
import { withPlan } from './affinity.ts';

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
    const wished = { ...here, values: ['h2'] };
    assert.deepEqual(withPlan(present, { kind: 'Required', hostnames, wished: ['h2'] }), {
      ...(required({ matchExpressions: [here] }) as object),
      preferredDuringSchedulingIgnoredDuringExecution: [
        own,
        { weight: 100, preference: { matchExpressions: [wished] } },
      ],
    });
  });

  it('stays as it is when the plan names no node', () => {
    assert.equal(withPlan(undefined, { kind: 'Required', hostnames: [] }), undefined);
  });
});
