import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../src/command.ts';
import { ToolUnavailable } from '../tools/build.ts';

const minutes = 60_000;

/** buildah(1) with a store of its own in a folder; needs root, and neither a daemon nor a container runtime. */
export class Buildah {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(join(folder, 'tmp'), { recursive: true });
  }

  async hasImage(name: string): Promise<boolean> {
    return (await this.#buildah(['inspect', '--type', 'image', name])).code === 0;
  }

  /** Makes an image of another one (or `scratch`) and the files below a folder. */
  async commitTree(base: string, tree: string, name: string, environment: string[]): Promise<void> {
    const container = (await this.#must(['from', '--pull-never', base])).trim();
    try {
      await this.#must(['copy', '--quiet', container, tree, '/']);
      const settings = environment.flatMap((variable) => ['--env', variable]);
      await this.#must(['config', ...settings, '--cmd', '/bin/bash', container]);
      await this.#must(['commit', '--quiet', container, name]);
    } finally {
      await this.#buildah(['rm', container]);
    }
  }

  /** Builds a Dockerfile; unchanged steps come from the store. `volumes`: HOST:CONTAINER:OPTIONS, for its RUN steps. */
  async build(context: string, name: string, options: { args: Record<string, string>; volumes: string[] }) {
    await this.#must([
      ...['bud', '--isolation', 'chroot', '--layers', '--pull-never', '--format', 'docker', '--tag', name],
      ...Object.entries(options.args).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]),
      ...options.volumes.flatMap((volume) => ['--volume', volume]),
      context,
    ]);
  }

  /** Writes an image as a docker-archive. */
  async save(name: string, path: string, imageName: string): Promise<void> {
    await this.#must(['push', '--quiet', name, `docker-archive:${path}:${imageName}`]);
  }

  /** Removes images that no name and no other image refers to. */
  async prune(): Promise<void> {
    await this.#buildah(['rmi', '--prune']);
  }

  async #must(args: string[]): Promise<string> {
    const outcome = await this.#buildah(args);
    if (outcome.code === 127) throw new ToolUnavailable('buildah is not installed; `make setup` as root installs it');
    if (outcome.code !== 0) throw new Error(`buildah ${args[0]}: ${(outcome.stdout + outcome.stderr).slice(-8000)}`);
    return outcome.stdout;
  }

  #buildah(args: string[]) {
    const store = ['--root', join(this.#folder, 'store'), '--runroot', join(this.#folder, 'run')];
    // It keeps what RUN --mount=type=cache caches below TMPDIR.
    const environment = { TMPDIR: join(this.#folder, 'tmp') };
    return run('buildah', [...store, '--storage-driver', 'overlay', ...args], { timeoutMs: 40 * minutes, environment });
  }
}
