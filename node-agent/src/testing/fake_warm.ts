import type { HearthError } from '@hearth/common';
import type { WarmOptions, WarmProgress } from '@hearth/engine';
import type { FakeEngine } from './fake_engine.ts';
import type { FakeManifest } from './fake_fabric.ts';

const tickMs = 10;

/** A warm job of a fake engine: fetches one file after the other at the job's rate, each from the origin only once. */
export class FakeWarm {
  readonly progress: WarmProgress;
  rateLimit: bigint;
  readonly #engine: FakeEngine;
  readonly #files: FakeManifest['entries'];
  readonly #options: WarmOptions;
  readonly #timer: NodeJS.Timeout;
  #lastTick = performance.now();

  constructor(engine: FakeEngine, options: WarmOptions, manifest: FakeManifest) {
    this.#engine = engine;
    this.#options = options;
    this.rateLimit = options.rateLimit;
    const wanted = options.entries === undefined ? undefined : new Set(options.entries);
    const { agents } = options.advice ?? {};
    const position = agents?.indexOf(engine.options.node) ?? 0;
    this.#files = manifest.entries.filter(
      (entry) =>
        entry.kind === 'file' &&
        (wanted?.has(entry.index) ?? true) &&
        (agents === undefined || entry.index % agents.length === position) &&
        (agents === undefined || engine.fabric.holder(entry.contentKey, entry.size, engine) === undefined),
    );
    this.progress = {
      state: 'running',
      bytesTotal: this.#files.reduce((sum, file) => sum + file.size, 0n),
      bytesReady: 0n,
      bytesInMemory: 0n,
      filesTotal: this.#files.length,
      filesReady: 0,
      filesVerified: 0,
      originBytes: 0n,
      peerBytes: 0n,
      bytesVerified: 0n,
      waitingFor: '',
    };
    this.#count();
    this.#timer = setInterval(() => this.#tick(), tickMs);
  }

  get running(): boolean {
    return this.progress.state === 'running' || this.progress.state === 'verifying';
  }

  cancel(): void {
    if (this.running) this.#end('cancelled');
  }

  fail(error: HearthError): void {
    this.progress.error = { code: error.code, message: error.message };
    this.#end('failed');
  }

  #end(state: WarmProgress['state']): void {
    clearInterval(this.#timer);
    this.progress.state = state;
    for (const [key, engine] of this.#engine.fabric.granted) {
      if (engine === this.#engine) this.#engine.fabric.granted.delete(key);
    }
  }

  #tick(): void {
    const now = performance.now();
    const seconds = (now - this.#lastTick) / 1000;
    this.#lastTick = now;
    if (this.progress.state === 'verifying') {
      this.progress.filesVerified = this.progress.filesTotal;
      this.progress.bytesVerified = this.progress.bytesTotal;
      this.#end('succeeded');
      return;
    }
    const { fabric } = this.#engine;
    const speed = this.rateLimit > 0n ? Number(this.rateLimit) : fabric.bytesPerSecond;
    this.#engine.writeBehind();
    let room = BigInt(Math.ceil(speed * seconds));
    for (const file of this.#files) {
      const missing = file.size - this.#engine.heldOf(file.contentKey);
      if (missing === 0n || room === 0n) continue;
      if (file.path === fabric.changedPath) {
        this.#engine.reportChanged(this, this.#options, file.index);
        return;
      }
      if (fabric.holder(file.contentKey, file.size, this.#engine) !== undefined) {
        this.#engine.land(file.contentKey, missing);
        this.progress.peerBytes += missing;
        continue;
      }
      const owner = fabric.granted.get(file.contentKey);
      if (owner !== undefined && owner !== this.#engine) continue;
      fabric.granted.set(file.contentKey, this.#engine);
      const taken = missing < room ? missing : room;
      room -= taken;
      this.#engine.land(file.contentKey, taken);
      this.progress.originBytes += taken;
      fabric.originBytes.set(file.contentKey, (fabric.originBytes.get(file.contentKey) ?? 0n) + taken);
      if (taken === missing) fabric.granted.delete(file.contentKey);
    }
    this.#count();
    if (this.progress.filesReady < this.progress.filesTotal) return;
    if (this.#options.verify === 'none') this.#end('succeeded');
    else this.progress.state = 'verifying';
  }

  #count(): void {
    this.progress.bytesReady = 0n;
    this.progress.bytesInMemory = 0n;
    this.progress.filesReady = 0;
    for (const file of this.#files) {
      const resident = this.#engine.residentOf(file.contentKey);
      this.progress.bytesReady += resident;
      this.progress.bytesInMemory += this.#engine.heldOf(file.contentKey);
      if (resident === file.size) this.progress.filesReady++;
    }
  }
}
