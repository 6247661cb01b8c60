import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { must, run, ToolUnavailable } from '@hearth/common/testing';

const minutes = 60_000;

/** Of processors, as images name them. */
export type Architecture = 'amd64' | 'arm64';
export const ownArchitecture: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** What buildx tells the Dockerfile of the machine that builds and of the one that the image is for. */
const platformArguments = (target: Architecture): Record<string, string> => ({
  BUILD_PLATFORM: `linux/${ownArchitecture}`,
  TARGET_PLATFORM: `linux/${target}`,
  BUILDARCH: ownArchitecture,
  TARGETARCH: target,
});

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

  /** Makes an image of another one (or `scratch`) and the files below a folder, for this machine's processor or another. */
  async commitTree(
    base: string,
    tree: string,
    name: string,
    environment: string[],
    architecture = ownArchitecture,
  ): Promise<void> {
    const container = (await this.#must(['from', '--pull-never', base])).trim();
    try {
      await this.#must(['copy', '--quiet', container, tree, '/']);
      const settings = environment.flatMap((variable) => ['--env', variable]);
      await this.#must(['config', '--arch', architecture, ...settings, '--cmd', '/bin/bash', container]);
      await this.#must(['commit', '--quiet', container, name]);
    } finally {
      await this.#buildah(['rm', container]);
    }
  }

  /** Builds a Dockerfile; unchanged steps come from the store. `volumes`: HOST:CONTAINER:OPTIONS, for its RUN steps. */
  async build(
    context: string,
    name: string,
    options: { args: Record<string, string>; volumes: string[]; architecture?: Architecture },
  ) {
    const { architecture = ownArchitecture } = options;
    const args = { ...platformArguments(architecture), ...options.args };
    await this.#must([
      ...['bud', '--isolation', 'chroot', '--layers', '--pull-never', '--format', 'docker', '--tag', name],
      ...(architecture === ownArchitecture ? [] : ['--platform', `linux/${architecture}`]),
      ...Object.entries(args).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]),
      ...options.volumes.flatMap((volume) => ['--volume', volume]),
      context,
    ]);
  }

  /** Writes an image into a folder that is an OCI layout (OCI image specification 1.1), under a name of the layout's index. */
  async saveLayout(name: string, layout: string, reference: string): Promise<void> {
    await this.#must(['push', '--quiet', '--format', 'oci', name, `oci:${layout}:${reference}`]);
  }

  /** Writes an image as a docker-archive. */
  async save(name: string, path: string, imageName: string): Promise<void> {
    await this.#must(['push', '--quiet', name, `docker-archive:${path}:${imageName}`]);
  }

  /**
   * Pushes an image of a docker-archive to a registry, as REGISTRY/REPOSITORY:TAG, with the credentials of `buildah login` or
   * `docker login`. `plain`: also by http, and whatever its certificate says.
   */
  async publish(archive: string, name: string, options: { plain: boolean }): Promise<void> {
    const image = (await this.#must(['pull', '--quiet', `docker-archive:${archive}`])).trim();
    const check = `--tls-verify=${!options.plain}`;
    await this.#must(['push', '--quiet', '--format', 'v2s2', check, image, `docker://${name}`]);
  }

  /** Removes what interrupted builds have left, and everything when the store has grown beyond a limit. */
  async tidy(limitBytes: number): Promise<void> {
    await this.#buildah(['rm', '--all']);
    const store = join(this.#folder, 'store');
    if (existsSync(store) && Number((await must('du', '-s', '-B1', store)).split('\t')[0]) > limitBytes) {
      rmSync(store, { recursive: true });
    }
  }

  async #must(args: string[]): Promise<string> {
    const outcome = await this.#buildah(args);
    if (outcome.code === 127) throw new ToolUnavailable('buildah is not installed; `make setup` as root installs it');
    if (outcome.code !== 0) throw new Error(`buildah ${args[0]}: ${(outcome.stdout + outcome.stderr).slice(-4000)}`);
    return outcome.stdout;
  }

  #buildah(args: string[]) {
    const store = ['--root', join(this.#folder, 'store'), '--runroot', join(this.#folder, 'run')];
    // It keeps what RUN --mount=type=cache caches below TMPDIR.
    const environment = { TMPDIR: join(this.#folder, 'tmp') };
    // It leaves mounts of its store behind, which go with a mount namespace of its own.
    const own = ['--mount', '--propagation', 'private', 'buildah', ...store, '--storage-driver', 'overlay'];
    return run('unshare', [...own, ...args], { timeoutMs: 40 * minutes, environment });
  }
}
