import assert from 'node:assert/strict';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import type { Manifest } from '@hearth/common/testing/kubernetes';
import { inline, type Journey } from './journey.ts';

/** The Dataset `model` of a journey: one file of an HTTP origin, `weights`, which pods read on the first node. */
export class JourneyModel {
  readonly #journey: Journey;
  readonly #bytes: Buffer;

  private constructor(journey: Journey, bytes: Buffer) {
    this.#journey = journey;
    this.#bytes = bytes;
  }

  /** Makes the Dataset. `seed`: bytes that no other journey has. */
  static async start(journey: Journey, seed: number): Promise<JourneyModel> {
    const model = new JourneyModel(journey, bytesOf(seed, 6 * MiB));
    await journey.apply(journey.dataset('model', { http: { urls: [journey.origin.add('weights', model.#bytes)] } }));
    return model;
  }

  /** A pod that mounts it. */
  reader(name: string, options: { command?: string } = {}): Manifest {
    return this.#journey.reader(name, inline('model'), options);
  }

  /** A pod that reads it again and again, and fails when it is wrong (`Journey.rounds`). */
  watcher(name: string): Manifest {
    return this.#journey.watcher(name, inline('model'), 'weights', sha256(this.#bytes));
  }

  /** Waits until the Dataset shows that one node has all of it. */
  async cached(what: string): Promise<void> {
    const complete = async () => {
      const status = (await this.#journey.get('dataset', 'model'))?.status;
      return status?.nodes === 1 && status.percent === 100;
    };
    await until(what, complete);
  }

  /** The pod reads the bytes of the origin. */
  async readsRight(pod: string): Promise<void> {
    const sum = await ok(this.#journey.inPod(pod, 'sha256sum /models/weights'));
    assert.equal(sum.slice(0, 64), sha256(this.#bytes));
  }
}
