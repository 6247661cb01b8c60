import { mkdtemp, open, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, HearthError, type Logger, sleep, systemClock } from '@hearth/common';
import { failedPrecondition } from '../csi_error.ts';
import { type ChildOutcome, runChild } from './child.ts';
import {
  barrierType,
  type FolderEntry,
  hasLabels,
  type MountCalls,
  type MountEntry,
  mountAt,
  optionsOf,
  type Restrictions,
  readMountTable,
  type Space,
} from './mount_calls.ts';
import { replaceEntries, TargetFolder } from './target_folder.ts';

export interface SystemMountsOptions {
  kubeletDirectory: string;
  deadlineMs: number;
  logger: Logger;
  clock?: Clock;
}

/** Processes that scan all mounts (lsof, virus scanners) let go soon. */
const busyTries = 4;
const busyPauseMs = 200;
/** Without helper programs, utab and canonical paths: a dead mount hangs every look. */
const plainOptions = ['--internal-only', '--no-mtab', '--no-canonicalize'];
const emptyLayer = ['--types', 'tmpfs', '--options', 'ro,nosuid,nodev,mode=0555', 'hearth'];
/** Living and dead mounts both answer within this time, ms. */
const answerMs = 2000;

/** Runs mount(8) and umount(8) as child processes, since they may hang. */
export class SystemMounts implements MountCalls {
  readonly #options: Required<SystemMountsOptions>;

  constructor(options: SystemMountsOptions) {
    this.#options = { clock: systemClock, ...options };
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

  async bind(source: string, target: string, restrictions: Restrictions): Promise<void> {
    await using folder = await this.#present(target);
    await using copy = await this.#privateCopy(source, restrictions);
    await folder.withDescriptor(async (descriptor) => {
      // move_mount(2), which newer mount(8) uses, does not follow a link at the end of a path, hence "/.".
      await this.#mount(target, ['--bind', copy.path, '/proc/self/fd/3/.'], descriptor);
    });
  }

  async bindOver(source: string, target: string, restrictions: Restrictions): Promise<void> {
    await using folder = await this.#present(target);
    await using copy = await this.#privateCopy(source, restrictions);
    // Through the parent: even "." of a dead mount asks its server.
    await this.#mount(target, ['--bind', copy.path, `/proc/self/fd/3/${folder.name}`], folder.parentDescriptor);
  }

  /** A FUSE file system whose server, this process, closes its descriptor. */
  async bar(target: string): Promise<void> {
    await using folder = await this.#present(target);
    await using server = await open('/dev/fuse', 'r+');
    const options = 'ro,nosuid,nodev,fd=4,rootmode=40555,user_id=0,group_id=0,allow_other';
    const place = `/proc/self/fd/3/${folder.name}`;
    const words = ['--types', barrierType, '--options', options, 'hearth-lost', place];
    await this.#mount(target, words, folder.parentDescriptor, server.fd);
  }

  async isDead(path: string): Promise<boolean> {
    const { clock } = this.#options;
    const outcome = await runChild('stat', ['--file-system', path], { deadlineMs: answerMs, clock });
    return !outcome.late && outcome.code !== 0 && outcome.message.endsWith('not connected');
  }

  /** The second layer is a tmpfs of its own, since deleting a shared one would empty the listings of all pods. */
  async overlay(source: string, target: string, restrictions: Restrictions): Promise<void> {
    if (/[,:\\]/.test(source)) {
      throw failedPrecondition(
        `${source} has commas, colons or backslashes, so mount cannot overlay it; use another state directory`,
      );
    }
    await using folder = await this.#present(target);
    await using empty = await this.#temporaryMount('hearth-layer-', emptyLayer);
    await folder.withDescriptor(async (descriptor) => {
      const layers = `lowerdir=${source}:${empty.path}`;
      const options = [...optionsOf(restrictions), ...labelOption(await this.table()), layers].join(',');
      const args = ['--types', 'overlay', '--options', options, 'hearth', '/proc/self/fd/3/.'];
      await this.#mount(target, args, descriptor);
    });
  }

  async memory(target: string, group: number | undefined): Promise<void> {
    await using folder = await this.#present(target);
    const owner = group === undefined ? 'mode=0755' : `mode=0750,gid=${group}`;
    const label = labelOption(await this.table());
    const options = ['nosuid,nodev,noexec,size=1m,nr_inodes=64', ...label, owner].join(',');
    await folder.withDescriptor(async (descriptor) => {
      await this.#mount(target, ['--types', 'tmpfs', '--options', options, 'hearth', '/proc/self/fd/3/.'], descriptor);
    });
  }

  async shareSockets(directory: string): Promise<void> {
    if (!(await this.table()).some(hasLabels)) return;
    const outcome = await runChild('chcon', ['--recursive', sharedLabel, directory], this.#options);
    if (outcome.code !== 0) throw failure('chcon', directory, outcome);
  }

  async replace(target: string, entries: readonly FolderEntry[], group: number | undefined): Promise<void> {
    await using folder = await this.#present(target);
    await folder.withDescriptor((descriptor) => replaceEntries(`/proc/self/fd/${descriptor}`, entries, group));
  }

  async space(target: string): Promise<Space> {
    const output = await this.#runAt(target, 'stat', ['--file-system', '--format=%S %b %f %c %d']);
    const [unit = 0n, blocks = 0n, free = 0n, files = 0n, filesFree = 0n] = output.split(' ').map(BigInt);
    return { bytes: blocks * unit, bytesFree: free * unit, files, filesFree };
  }

  async shareWith(target: string, group: number): Promise<void> {
    await this.#runAt(target, 'chgrp', [String(group)]);
    await this.#runAt(target, 'chmod', ['g+rwxs']);
  }

  async restrict(target: string, restrictions: Restrictions): Promise<void> {
    await using folder = await this.#present(target);
    const place = `/proc/self/fd/3/${folder.name}`;
    await this.#mount(target, [...remount(restrictions), place], folder.parentDescriptor);
  }

  async unmount(target: string): Promise<void> {
    await using folder = await this.#present(target);
    let outcome = await this.#umount([], folder.realPath);
    for (let tries = 1; tries < busyTries && isBusy(outcome); tries++) {
      await sleep(this.#options.clock, busyPauseMs);
      outcome = await this.#umount([], folder.realPath);
    }
    if (outcome.code === 0) return;
    if (isBusy(outcome) || outcome.late) {
      const reason = reasonOf(outcome);
      this.#options.logger.warn('failed to unmount a volume; detached its mount instead', { target, reason });
      outcome = await this.#umount(['--lazy'], folder.realPath);
    }
    if (outcome.code !== 0) throw failure('umount', target, outcome);
  }

  async removeTarget(target: string): Promise<void> {
    await using folder = await this.#open(target);
    await folder?.remove();
  }

  async #open(target: string): Promise<TargetFolder | undefined> {
    return await TargetFolder.open(this.#options.kubeletDirectory, target);
  }

  async #present(target: string): Promise<TargetFolder> {
    const folder = await this.#open(target);
    if (folder !== undefined) return folder;
    throw failedPrecondition(
      `the folder of the target ${target} is not there; the kubelet makes it before it publishes`,
    );
  }

  /**
   * A private copy of the source. A bind of a shared mount joins its peer group (mount_namespaces(7)), whose members
   * share later mounts and unmounts, so the pods of a dataset would affect one another. Restricted before the bind:
   * copies in other namespaces, from which containers are made, get these flags.
   */
  async #privateCopy(source: string, restrictions: Restrictions): Promise<AsyncDisposable & { path: string }> {
    const copy = await this.#temporaryMount('hearth-bind-', ['--bind', '--make-private', source]);
    try {
      await this.#mount(copy.path, [...remount(restrictions), copy.path]);
    } catch (thrown) {
      await copy[Symbol.asyncDispose]();
      throw thrown;
    }
    return copy;
  }

  /** Mounts in a temporary directory until disposal, which keeps binds made from it. */
  async #temporaryMount(prefix: string, what: string[]): Promise<AsyncDisposable & { path: string }> {
    const path = await mkdtemp(join(tmpdir(), prefix));
    const unmounted = async () => {
      if (mountAt(await this.table(), path) !== undefined) await this.#umount(['--lazy'], path);
      await rmdir(path);
    };
    try {
      await this.#mount(path, [...what, path]);
    } catch (thrown) {
      await unmounted();
      throw thrown;
    }
    return { path, [Symbol.asyncDispose]: unmounted };
  }

  /** Runs a program on the root of what is mounted at the target, in a child, since the file system may not answer. */
  async #runAt(target: string, program: string, args: string[]): Promise<string> {
    await using folder = await this.#present(target);
    const outcome = await folder.withDescriptor((descriptor) =>
      runChild(program, [...args, '/proc/self/fd/3/.'], { ...this.#options, descriptors: [descriptor] }),
    );
    if (outcome.code === 0) return outcome.output;
    throw failure(program, target, outcome);
  }

  async #mount(target: string, args: string[], ...descriptors: number[]): Promise<void> {
    const outcome = await runChild('mount', [...plainOptions, ...args], { ...this.#options, descriptors });
    if (outcome.code !== 0) throw failure('mount', target, outcome);
  }

  async #umount(args: string[], path: string): Promise<ChildOutcome> {
    return await runChild('umount', [...plainOptions, ...args, path], this.#options);
  }
}

/** Files that every container may use: without categories, which keep containers from each other's files. */
const sharedLabel = 'system_u:object_r:container_file_t:s0';

/** Pure. A kernel without SELinux refuses the option. */
export function labelOption(table: readonly MountEntry[]): string[] {
  return table.some(hasLabels) ? [`context="${sharedLabel}"`] : [];
}

/** Changes this mount alone, not its copies. */
function remount(restrictions: Restrictions): string[] {
  return ['--options', `remount,bind,${optionsOf(restrictions).join()}`, 'none'];
}

/** umount(8) gives reasons only in words, in English in the child's locale. */
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
    `${program} failed for ${target}: ${reasonOf(outcome)}; the kubelet tries again: look at the node's kernel log`,
  );
}
