import { mkdir, rmdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { HearthError, type Logger } from '@hearth/common';
import { CsiError } from '../csi_error.ts';
import { type ChildOutcome, runChild } from './child.ts';
import type { MountCalls, Restrictions } from './mount_calls.ts';
import { type MountEntry, readMountTable } from './mount_table.ts';
import { TargetFolder } from './target_folder.ts';

export interface SystemMountsOptions {
  kubeletDirectory: string;
  /** A folder to be made, and to stay empty: an overlay wants two. */
  emptyDirectory: string;
  /** Milliseconds for one run of mount or umount. */
  deadlineMs: number;
  logger: Logger;
}

/** A process that looks through all mounts (lsof, a virus scanner) lets go soon. */
const busyTries = 4;
const busyPauseMs = 200;

/** mount(8) and umount(8) as child processes: they may hang, and this process must not. */
export class SystemMounts implements MountCalls {
  readonly #options: SystemMountsOptions;

  constructor(options: SystemMountsOptions) {
    this.#options = options;
  }

  async table(): Promise<MountEntry[]> {
    return await readMountTable();
  }

  async resolve(target: string): Promise<string | undefined> {
    await using folder = await this.#open(target);
    return folder?.realPath;
  }

  async makeTarget(target: string): Promise<void> {
    await using folder = await this.#present(target);
    await folder.make();
  }

  async bind(source: string, target: string): Promise<void> {
    await using folder = await this.#present(target);
    await folder.withDescriptor(async (descriptor) => {
      // "/." because move_mount(2), which newer mount(8) uses, does not follow a link at the end of the path.
      await this.#mount(target, ['--bind', source, '/proc/self/fd/3/.'], descriptor);
    });
  }

  async overlay(source: string, target: string): Promise<void> {
    const { emptyDirectory } = this.#options;
    if (/[,:\\]/.test(source + emptyDirectory)) {
      throw new CsiError(
        'FAILED_PRECONDITION',
        `${source} and ${emptyDirectory} cannot be overlaid for their commas, colons or backslashes; use other folders`,
      );
    }
    await mkdir(emptyDirectory, { recursive: true, mode: 0o555 });
    await using folder = await this.#present(target);
    await folder.withDescriptor(async (descriptor) => {
      const options = `ro,nosuid,nodev,lowerdir=${source}:${emptyDirectory}`;
      await this.#mount(
        target,
        ['--types', 'overlay', '--options', options, 'hearth', '/proc/self/fd/3/.'],
        descriptor,
      );
    });
  }

  async restrict(target: string, restrictions: Restrictions): Promise<void> {
    await using folder = await this.#present(target);
    const options = ['remount', 'bind', 'ro', 'nosuid', 'nodev', ...(restrictions.noexec ? ['noexec'] : [])];
    const place = `/proc/self/fd/3/${folder.name}`;
    await this.#mount(target, ['--options', options.join(','), 'none', place], folder.parentDescriptor);
  }

  async unmount(target: string): Promise<void> {
    await using folder = await this.#present(target);
    let outcome = await this.#umount([], folder.realPath);
    for (let tries = 1; tries < busyTries && isBusy(outcome); tries++) {
      await sleep(busyPauseMs);
      outcome = await this.#umount([], folder.realPath);
    }
    if (outcome.code === 0) return;
    if (isBusy(outcome) || outcome.late) {
      this.#options.logger.warn('a volume could not be unmounted and is detached from its folder instead', {
        target,
        reason: reasonOf(outcome),
      });
      outcome = await this.#umount(['--lazy'], folder.realPath);
    }
    if (outcome.code !== 0) throw failure('umount', target, outcome);
  }

  async removeTarget(target: string): Promise<void> {
    await using folder = await this.#open(target);
    await folder?.remove();
  }

  /** Removes the folder that overlays wanted; those that there are hold it and go on without its name. */
  async close(): Promise<void> {
    await rmdir(this.#options.emptyDirectory).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code !== 'ENOENT') this.#options.logger.warn('an empty folder stays', { error: thrown });
    });
  }

  async #open(target: string): Promise<TargetFolder | undefined> {
    return await TargetFolder.open(this.#options.kubeletDirectory, target);
  }

  async #present(target: string): Promise<TargetFolder> {
    const folder = await this.#open(target);
    if (folder !== undefined) return folder;
    throw new CsiError(
      'FAILED_PRECONDITION',
      `the folder of the target ${target} is not there; the kubelet makes it before it publishes`,
    );
  }

  /** No helper programs, no utab, and no look at the paths: a dead mount hangs whoever looks at it. */
  async #mount(target: string, args: string[], descriptor: number): Promise<void> {
    const outcome = await runChild('mount', ['--internal-only', '--no-mtab', '--no-canonicalize', ...args], {
      deadlineMs: this.#options.deadlineMs,
      descriptors: [descriptor],
    });
    if (outcome.code !== 0) throw failure('mount', target, outcome);
  }

  async #umount(args: string[], path: string): Promise<ChildOutcome> {
    return await runChild('umount', ['--internal-only', '--no-mtab', '--no-canonicalize', ...args, path], {
      deadlineMs: this.#options.deadlineMs,
    });
  }
}

/** umount(8) says why only in words; they are English, as the child's locale is C. */
function isBusy(outcome: ChildOutcome): boolean {
  return outcome.code !== 0 && outcome.message.includes('target is busy');
}

function reasonOf(outcome: ChildOutcome): string {
  if (outcome.late) return 'it did not end within its deadline';
  return outcome.message === '' ? `it ended with ${outcome.code}` : outcome.message;
}

function failure(program: string, target: string, outcome: ChildOutcome): HearthError {
  return new HearthError(
    outcome.late ? 'DeadlineExceeded' : 'IoError',
    `${program} failed for ${target}: ${reasonOf(outcome)}; it is tried again by the kubelet, look at the node's kernel log`,
  );
}
