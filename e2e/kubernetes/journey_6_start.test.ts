import assert from 'node:assert/strict';
import { ok } from '../cluster/testing/ok.ts';
import { until } from '../src/command.ts';
import { MiB } from '../src/sample.ts';
import { inline, useJourney, verifying } from './journey.ts';

const rounds = 5;
/** On a machine that is busy with something else, what a pod without the dataset takes. */
const limitMs = 1000;

describe('start of pods', () => {
  const journey = useJourney('start');

  const median = (values: number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

  /** Milliseconds from the creation of a pod until it runs. */
  async function timed(name: string, volume: object): Promise<number> {
    const pod = journey().reader(name, volume);
    await journey().apply(pod);
    const began = performance.now();
    const phase = ['wait', '--for=jsonpath={.status.phase}=Running', '--timeout=300s', `pod/${name}`];
    await ok(journey().kubectl(phase));
    const took = performance.now() - began;
    await journey().remove(`pod/${name}`);
    return took;
  }

  it('takes at most a second longer with a warm dataset than with an empty folder', async () => {
    const path = journey().sample('start', { weights: 20 * MiB });
    await journey().apply(journey().dataset('model', { directory: { path } }));
    await journey().ready('dataset/model');
    await journey().apply(journey().reader('warmer', inline('model'), { command: verifying }));
    await journey().finished('warmer');
    await until('all of it is there', async () => (await journey().get('dataset', 'model'))?.status.nodes === 1);
    const without: number[] = [];
    const withDataset: number[] = [];
    for (let round = 0; round < rounds; round++) {
      without.push(await timed(`empty-${round}`, { emptyDir: {} }));
      withDataset.push(await timed(`model-${round}`, inline('model')));
    }
    const [empty, model] = [median(without), median(withDataset)];
    console.log(`      median of ${rounds}: ${empty.toFixed(0)} ms without, ${model.toFixed(0)} ms with the dataset`);
    assert.ok(model - empty <= Math.max(limitMs, empty), `${(model - empty).toFixed(0)} ms longer`);
    await journey().remove('pod/warmer');
  });
});
