import assert from 'node:assert/strict';
import { ok } from '@hearth/common/testing';
import { dropPageCache } from '../../bench/reader.ts';
import { hearthImageName } from '../cluster/images/hearth_image.ts';
import type { Journey } from '../kubernetes/journey.ts';

export const smallFiles = 2000;

/** Kinds of file system that /models can be. */
export const mounts = { fuse: /^fuse/, files: /^(ext4|xfs|btrfs)$/, filesOrOverlay: /^(ext4|xfs|btrfs|overlay)$/ };

const gib = 2 ** 30;

/** A pod with a dataset at /models and a copy of it on the node's own disk at /native, in which reads are timed. */
export class PodReader {
  readonly #journey: Journey;
  readonly #name: string;

  constructor(journey: Journey, name: string) {
    this.#journey = journey;
    this.#name = name;
  }

  /** `programs`: folder of hearth_bench_reader, which the image of Hearth can run. */
  async start(volume: object, programs: string): Promise<void> {
    const pod = this.#journey.reader(this.#name, volume);
    const [container] = pod.spec.containers;
    container.image = hearthImageName;
    container.securityContext = { runAsUser: 0 };
    container.volumeMounts.push(
      { name: 'native', mountPath: '/native', readOnly: true },
      { name: 'programs', mountPath: '/programs', readOnly: true },
    );
    pod.spec.volumes.push(
      { name: 'native', hostPath: { path: '/var/cache/native', type: 'Directory' } },
      { name: 'programs', hostPath: { path: programs, type: 'Directory' } },
    );
    await this.#journey.apply(pod);
    await this.#journey.ready(`pod/${this.#name}`);
  }

  async checkMount(kind: RegExp): Promise<void> {
    const line = await ok(this.#journey.inPod(this.#name, "grep ' /models ' /proc/mounts"));
    assert.match(line.split(' ')[2] ?? '', kind, `/models in pod ${this.#name}`);
  }

  /** Reads every file once. */
  async readAll(): Promise<void> {
    await ok(this.#journey.inPod(this.#name, 'cat /models/*/* > /dev/null'));
  }

  /** GiB/s of the large file, or thousands of small files a second, with nothing in the page cache. */
  async measure(mode: 'read' | 'mmap' | 'small', folder: '/models' | '/native'): Promise<number> {
    await dropPageCache();
    return this.measureAgain(mode, folder);
  }

  /** The same with the page cache as it is. */
  async measureAgain(mode: 'read' | 'mmap' | 'small', folder: '/models' | '/native'): Promise<number> {
    const path = mode === 'small' ? `${folder}/small` : `${folder}/large/part-0`;
    const output = await ok(this.#journey.inPod(this.#name, `/programs/hearth_bench_reader ${mode} ${path}`));
    const [bytes = 0, seconds = 0] = output.trim().split(' ').map(Number);
    if (!bytes || !seconds) throw new Error(`hearth_bench_reader ${mode} read nothing in pod ${this.#name}`);
    return mode === 'small' ? smallFiles / seconds / 1000 : bytes / gib / seconds;
  }
}
