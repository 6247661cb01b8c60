import { constants } from 'node:fs';
import { open, rename, symlink, unlink } from 'node:fs/promises';
import type { FolderEntry } from './mount_calls.ts';

/** As `MountCalls.replace`, in the folder at a path that only this process writes. */
export async function replaceEntries(
  folder: string,
  entries: readonly FolderEntry[],
  group: number | undefined,
): Promise<void> {
  for (const entry of entries) {
    const aside = `${folder}/.${entry.name}.partial`;
    await unlinkIfPresent(aside);
    if ('link' in entry) await symlink(entry.link, aside);
    else await writeNew(aside, entry.text, group);
    await rename(aside, `${folder}/${entry.name}`);
  }
}

async function writeNew(path: string, text: string, group: number | undefined): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  await using file = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o400);
  await file.writeFile(text);
  if (group !== undefined) await file.chown(0, group);
  await file.chmod(group === undefined ? 0o444 : 0o440);
}

/** One that a crash left. */
async function unlinkIfPresent(path: string): Promise<void> {
  await unlink(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== 'ENOENT') throw thrown;
  });
}
