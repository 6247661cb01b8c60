import assert from 'node:assert/strict';
import { z } from 'zod';
import { registeredName, splitRegisteredName } from '../names.ts';
import { structuralSchema } from './custom_resource.ts';
import { datasetSpecSchema, sourceKind } from './dataset.ts';
import { definitions } from './definition.ts';
import { quantity } from './fields.ts';
import { storageClusterSpecSchema } from './storage_cluster.ts';

describe('schemas of custom resources', () => {
  it('are structural', () => {
    const schema = structuralSchema(
      z.object({
        size: z.int().min(1).max(9).default(3).describe('How many.'),
        path: z.string().max(9).regex(/^\/a/),
        labels: z.record(z.string(), z.string()).optional(),
        amount: quantity().optional(),
      }),
    );
    assert.deepEqual(schema, {
      type: 'object',
      required: ['path'],
      properties: {
        size: { description: 'How many.', type: 'integer', format: 'int64', default: 3, minimum: 1, maximum: 9 },
        path: { type: 'string', maxLength: 9, pattern: '^/a' },
        labels: { type: 'object', additionalProperties: { type: 'string' } },
        amount: {
          'x-kubernetes-int-or-string': true,
          anyOf: [{ type: 'integer' }, { type: 'string' }],
          pattern: '^[0-9]{1,15}(\\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$',
        },
      },
    });
  });

  it('refuse types that a definition cannot express', () => {
    assert.throws(() => structuralSchema(z.object({ a: z.union([z.string(), z.boolean()]) })), /schema\.a: a union/);
    assert.throws(
      () => structuralSchema(z.object({ a: z.string().meta({ title: 'A' }) })),
      /schema\.a: .*do not know title/,
    );
    assert.throws(() => structuralSchema(z.object({ a: z.strictObject({}) })), /schema\.a: unknown fields are pruned/);
  });

  it('keep names and paths of all kinds distinct', () => {
    assert.equal(new Set(definitions.flatMap((one) => [one.kind, one.plural, ...one.shortNames])).size, 12);
  });

  it('give TypeScript the types and defaults that the API server fills in', () => {
    const cluster = storageClusterSpecSchema.parse({
      nodeGroups: [{ name: 'a', cacheDirectories: [{ path: '/mnt/a' }] }],
    });
    assert.deepEqual(cluster.nodeGroups[0]?.cacheDirectories, [{ path: '/mnt/a', budget: '70%', freeFloor: '20%' }]);
    assert.equal(cluster.store.etcd?.replicas, 1);
    const dataset = datasetSpecSchema.parse({ source: { hub: { repo: 'org/model' } } });
    assert.equal(dataset.source.hub?.revision, 'main');
    assert.equal(sourceKind(dataset.source), 'hub');
    assert.throws(() => sourceKind({}), TypeError);
  });

  it('name Datasets uniquely', () => {
    assert.equal(registeredName('team-a', 'llama.v1'), 'team-a.llama.v1');
    assert.deepEqual(splitRegisteredName('team-a.llama.v1'), { namespace: 'team-a', name: 'llama.v1' });
    for (const foreign of ['llama', '.llama', 'llama.']) assert.equal(splitRegisteredName(foreign), undefined);
  });
});
