import { accepted, type Case, many, refused } from './custom_resource_case.ts';

const placement = { replicas: 2 };
const preload = (change: object = {}) => ({ datasets: [{ name: 'llama' }], placement, ...change });
const kinds = /exactly one of replicas, nodeNames, allNodes and gatedPods must be given/;

export const cachePreloadCases: Case[] = [
  accepted('a number of nodes', preload()),
  accepted('nodes by name', preload({ placement: { nodeNames: ['gpu-1', 'gpu-2'] } })),
  accepted('all nodes with labels', preload({ placement: { allNodes: true, nodeSelector: { pool: 'gpu' } } })),
  accepted('gated pods', preload({ placement: { gatedPods: { gate: {}, group: 'ReplicaSet/web' } } })),
  accepted(
    'everything else',
    preload({
      datasets: [{ name: 'llama', paths: ['*.safetensors'] }, { name: 'tokenizer' }],
      pin: false,
      ttl: '72h',
      priority: 1000,
      deadline: '30m',
      rateLimit: { origin: '500Mi', network: '64Ki' },
      verify: 'SourceDigest',
      revisions: 'Every',
    }),
  ),
  refused('no Dataset', 'spec.datasets', /should have at least 1 items/, preload({ datasets: [] })),
  refused(
    'a Dataset twice',
    'spec.datasets[1]',
    /Duplicate value/,
    preload({ datasets: [{ name: 'llama' }, { name: 'llama', paths: ['a'] }] }),
  ),
  refused(
    'too many Datasets',
    'spec.datasets',
    /must have at most 32 items/,
    preload({ datasets: many(33, (index) => ({ name: `d${index}` })) }),
  ),
  refused('no placement', 'spec.placement', /Required value/, { datasets: [{ name: 'llama' }] }),
  refused('a placement of no kind', 'spec.placement', kinds, preload({ placement: {} })),
  refused('a placement of two kinds', 'spec.placement', kinds, preload({ placement: { replicas: 1, allNodes: true } })),
  refused(
    'not all nodes',
    'spec.placement.allNodes',
    /must be true or absent/,
    preload({ placement: { allNodes: false } }),
  ),
  refused(
    'labels of nodes that are named',
    'spec.placement.nodeSelector',
    /requires replicas or allNodes/,
    preload({ placement: { nodeNames: ['a'], nodeSelector: { pool: 'gpu' } } }),
  ),
  refused(
    'no replicas',
    'spec.placement.replicas',
    /should be greater than or equal to 1/,
    preload({ placement: { replicas: 0 } }),
  ),
  refused(
    'a node twice',
    'spec.placement.nodeNames[1]',
    /Duplicate value/,
    preload({ placement: { nodeNames: ['a', 'a'] } }),
  ),
  refused(
    'a rate that moves nothing',
    'spec.rateLimit.origin',
    /must be at least 64Ki/,
    preload({ rateLimit: { origin: '1Ki' } }),
  ),
  refused('a time without a unit', 'spec.ttl', /should match/, preload({ ttl: '60' })),
  refused('a deadline of no time', 'spec.deadline', /must be a duration from 1s to 720h/, preload({ deadline: '0s' })),
  refused(
    'a priority beyond all others',
    'spec.priority',
    /should be less than or equal to 1000/,
    preload({ priority: 1001 }),
  ),
  refused('a verification that there is not', 'spec.verify', /Unsupported value/, preload({ verify: 'None' })),
  refused('a field that is not known', '', /unknown field "spec.cluster"/, preload({ cluster: 'main' })),
];
