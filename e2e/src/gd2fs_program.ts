import { copyFileSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { must, root } from '@hearth/common/testing';

const library = join(root, 'build/release/client');

/** Compiles examples/gd2fs_cat.c against the libgd2fs of this checkout, into a folder; the path of the program. */
export async function compileGd2fsCat(folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const program = join(folder, 'gd2fs_cat');
  const include = ['-I', join(root, 'native/client/include')];
  const link = [join(library, 'libgd2fs.so'), `-Wl,-rpath,${library}`];
  await must('gcc', '-Wall', '-Werror', '-o', program, join(root, 'examples/gd2fs_cat.c'), ...include, ...link);
  return program;
}

/**
 * As `compileGd2fsCat`, with every library beside the program, for machines that have none of them; the command that runs the
 * program where `seenAt` is the folder.
 */
export async function bundleGd2fsCat(folder: string, seenAt: string): Promise<string> {
  const program = await compileGd2fsCat(folder);
  const libraries = [...(await must('ldd', program)).matchAll(/(\/\S+) \(0x/g)].map((match) => match[1] as string);
  for (const path of libraries) copyFileSync(path, join(folder, basename(path)));
  const loader = libraries.map((path) => basename(path)).find((name) => name.startsWith('ld-'));
  if (loader === undefined) throw new Error(`ldd names no loader of ${program}`);
  return `${seenAt}/${loader} --library-path ${seenAt} ${seenAt}/${basename(program)}`;
}
