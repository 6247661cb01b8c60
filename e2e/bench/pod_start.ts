import { ok } from '@hearth/common/testing';
import type { Measure } from '../../bench/result.ts';
import { inline, type Journey } from '../kubernetes/journey.ts';

const limit = 1;

/** Seconds from the creation of a pod with that volume until it runs. */
async function startSeconds(journey: Journey, name: string, volume: object): Promise<number> {
  await journey.apply(journey.reader(name, volume));
  const began = performance.now();
  await ok(journey.kubectl(['wait', '--for=jsonpath={.status.phase}=Running', '--timeout=300s', `pod/${name}`]));
  const seconds = (performance.now() - began) / 1000;
  await journey.remove(`pod/${name}`);
  return seconds;
}

/** Of a pod with the warm dataset `model`, which may take a second longer than one with an empty folder. */
export function podStart(journey: Journey): Measure {
  return {
    id: 'pod-start',
    what: `a pod with a warm dataset runs, at most ${limit} s after one with an empty folder`,
    unit: 's',
    better: 'less',
    target: 1,
    sides: {
      value: (run) => startSeconds(journey, `model-${run}`, inline('model')),
      baseline: async (run) => (await startSeconds(journey, `empty-${run}`, { emptyDir: {} })) + limit,
    },
  };
}
