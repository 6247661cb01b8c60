import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from '../cluster.ts';
import { run, seconds } from '../command.ts';
import { makeEntries } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';

const listed = 100_000;
const listLimit = 5;
const memoryLimit = 250;
const perFolder = 1000;

/** Memory and times that must stay below a limit; the baseline is the limit. */
export const limits: Group = {
  ids: ['idle-memory', 'list-', 'ls-'],
  async measure(around: Surroundings): Promise<void> {
    const idle = await Cluster.start(join(around.directory, 'idle'), ['idle'], 2 ** 30, around);
    try {
      await sleep(3000);
      await around.row({
        id: 'idle-memory',
        what: `resident memory of an idle agent beside its arena, at most ${memoryLimit} MiB`,
        unit: 'MiB',
        better: 'less',
        target: 1,
        sides: { value: async () => idle.residentMemory('idle'), baseline: async () => memoryLimit },
      });
    } finally {
      await idle.stop();
    }

    const { cluster } = around;
    const many = join(around.directory, 'many');
    makeEntries(many, listed, perFolder);
    await around.row({
      id: 'list-origin',
      what: `\`hearth dataset add\` of a directory of ${listed} files, at most ${listLimit} s`,
      unit: 's',
      better: 'less',
      target: 1,
      sides: {
        value: () => seconds(() => cluster.hearth(['dataset', 'add', 'many', many])),
        baseline: async () => listLimit,
      },
    });
    await around.row({
      id: 'list-files',
      what: `\`hearth ls\` of one folder of a dataset of ${listed} files, at most ${listLimit} s`,
      unit: 's',
      better: 'less',
      target: 1,
      sides: {
        value: () => seconds(() => cluster.hearth(['ls', 'many', 'folder-0042'])),
        baseline: async () => listLimit,
      },
    });

    const large = join(around.directory, 'entries');
    makeEntries(large, around.entries, perFolder);
    await cluster.hearth(['dataset', 'add', 'entries', large]);
    const folder = `folder-${String(Math.floor(around.entries / perFolder / 2)).padStart(4, '0')}`;
    // A mount that was not looked at yet for each run: the kernel keeps names.
    const list = async (): Promise<number> => {
      const mount = await cluster.mount('entries', 'fuse');
      try {
        return await seconds(() => run('ls', ['-l', join(mount, folder)]));
      } finally {
        await cluster.unmount(mount);
      }
    };
    await around.row({
      id: 'ls-folder',
      what: `first \`ls -l\` of a folder of ${perFolder} in a mount of ${around.entries} entries, at most 1 s`,
      unit: 's',
      better: 'less',
      target: 1,
      sides: { value: list, baseline: async () => 1 },
    });
  },
};
