import { basename, join } from 'node:path';
import { Nginx } from '@hearth/common/testing/origins';
import { makeFiles } from './data.ts';
import { Tmpfs } from './tmpfs.ts';

/** Room that a file system takes besides the bytes of a few large files. */
const slackBytes = 64 * 2 ** 20;

/** Does something with `count` files, of so many bytes together, in a folder in memory; nothing of them is left. */
export async function withFilesInMemory(
  directory: string,
  { count, bytes }: { count: number; bytes: number },
  work: (folder: string, files: string[]) => Promise<void>,
): Promise<void> {
  const memory = await Tmpfs.mount(join(directory, 'memory'), bytes + slackBytes);
  try {
    const folder = join(memory.path, 'served');
    await work(folder, makeFiles(folder, count, bytes));
  } finally {
    await memory.remove();
  }
}

/** The same with nginx that serves them, at these URLs. */
export async function withServedFiles(
  directory: string,
  data: { count: number; bytes: number },
  work: (urls: string[], files: string[]) => Promise<void>,
): Promise<void> {
  await withFilesInMemory(directory, data, async (folder, files) => {
    const nginx = await Nginx.start(join(directory, 'nginx'), folder);
    try {
      await work(
        files.map((file) => `${nginx.url}/${basename(file)}`),
        files,
      );
    } finally {
      await nginx.stop();
    }
  });
}
