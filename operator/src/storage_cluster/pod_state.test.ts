import assert from 'node:assert/strict';
import type { Pod } from '@hearth/common/kubernetes';
import { lastSentence, podState } from './pod_state.ts';

const labels = {
  'app.kubernetes.io/component': 'agent',
  'hearth.storage/cluster': 'models',
  'hearth.storage/node-group': 'all',
};
const container = (fields: object) => ({
  name: 'agent',
  image: 'i',
  imageID: '',
  ready: false,
  restartCount: 0,
  ...fields,
});
const pod = (status: object, spec: object = { nodeName: 'n1' }): Pod =>
  ({
    metadata: { name: 'p', labels, creationTimestamp: '1970-01-01T00:01:00Z' },
    spec: { containers: [], ...spec },
    status,
  }) as unknown as Pod;
const ended = (terminated: object) => container({ lastState: { terminated }, state: { running: {} } });

describe('state of a pod', () => {
  it('is ready, with where it can be reached', () => {
    const state = podState(
      pod({ phase: 'Running', hostIP: '10.0.0.5', conditions: [{ type: 'Ready', status: 'True' }] }),
    );
    assert.deepEqual(state, {
      name: 'p',
      cluster: 'models',
      component: 'agent',
      group: 'all',
      node: 'n1',
      hostAddress: '10.0.0.5',
      ready: true,
      running: true,
      deleting: false,
      createdAt: 60_000,
      configuration: '',
      trouble: undefined,
    });
  });

  const troubles: [what: string, status: object, reason: string, message: RegExp][] = [
    [
      'no node for it',
      {
        phase: 'Pending',
        conditions: [{ type: 'PodScheduled', status: 'False', message: '0/3 nodes: Insufficient memory.' }],
      },
      'PodNotScheduled',
      /finds no node for the pod: 0\/3 nodes: Insufficient memory/,
    ],
    [
      'an image that is not there',
      { containerStatuses: [container({ state: { waiting: { reason: 'ImagePullBackOff', message: 'not found' } } })] },
      'ImageNotPulled',
      /cannot pull the image of the pod: not found/,
    ],
    [
      'a missing Secret',
      {
        containerStatuses: [
          container({ state: { waiting: { reason: 'CreateContainerConfigError', message: 'secret "x" not found' } } }),
        ],
      },
      'CreateContainerConfigError',
      /secret "x" not found/,
    ],
    [
      'a crash loop',
      {
        containerStatuses: [
          container({
            state: { waiting: { reason: 'CrashLoopBackOff' } },
            lastState: { terminated: { exitCode: 8, message: '{"level":"info"}\nhearth: the disk is too small\n' } },
          }),
        ],
      },
      'CrashLoop',
      /^The process of the pod ended with code 8: the disk is too small$/,
    ],
    [
      'a restart',
      { containerStatuses: [ended({ exitCode: 1 })] },
      'Restarting',
      /^The process of the pod ended with code 1$/,
    ],
    [
      'too little memory',
      { containerStatuses: [ended({ exitCode: 137, reason: 'OOMKilled' })] },
      'Restarting',
      /ended for lack of memory/,
    ],
    ['an eviction', { phase: 'Failed', reason: 'Evicted', message: 'disk pressure' }, 'Evicted', /disk pressure/],
    [
      'a process that is not ready',
      { phase: 'Running', containerStatuses: [container({ state: { running: {} } })] },
      'PodNotReady',
      /is running but not ready/,
    ],
    ['a start', { phase: 'Pending' }, 'PodStarting', /is starting/],
  ];
  for (const [what, status, reason, message] of troubles) {
    it(`reports ${what}`, () => {
      const { trouble, ready } = podState(pod(status));
      assert.equal(ready, false);
      assert.equal(trouble?.reason, reason);
      assert.match(trouble?.message ?? '', message);
    });
  }

  it('knows the node that a pod of a DaemonSet is meant for', () => {
    const matchFields = [{ key: 'metadata.name', operator: 'In', values: ['n7'] }];
    const affinity = {
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] } },
    };
    assert.equal(podState(pod({}, { affinity })).node, 'n7');
  });

  it('takes the sentence out of the last line of a log', () => {
    assert.equal(lastSentence('a\n{"level":"error","message":"it hangs"}\n'), 'it hangs');
    assert.equal(lastSentence('{"error":{"code":"InUse","message":"port in use"}}'), 'port in use');
    assert.equal(
      lastSentence('{"level":"fatal","msg":"discovery failed","error":"no data"}'),
      'discovery failed: no data',
    );
    assert.equal(lastSentence('{"level":"err'), '{"level":"err');
    assert.equal(lastSentence('hearth-holder: no /dev/fuse'), 'no /dev/fuse');
    assert.equal(lastSentence(''), '');
  });
});
