import { isAbsolute, resolve } from 'node:path';
import { HearthError } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { parseDuration } from '@hearth/common/resources';

/** Options of `dataset add` that belong to the source. */
export interface SourceOptions {
  endpoint?: string;
  region?: string;
  pathStyle?: boolean;
  sha256?: string[];
  allowPrivate?: boolean;
  unusableNames?: 'fail' | 'skip';
  allowWeakValidators?: boolean;
  originWait?: string;
  mirror?: string[];
}

/**
 * Parses the source on a command line; relative directories are resolved against `directory`. Throws `InvalidArgument`
 * for options that the kind of source lacks.
 */
export async function readSource(texts: string[], options: SourceOptions, directory: string): Promise<Source> {
  const { parseSource, checkEndpoint } = await import('@hearth/node-agent/source');
  const isUrl = (text: string) => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  // A shell expands ~ and completes names without "./", so a word without a scheme is a directory.
  const isLocal = (text: string) => text !== '' && !isUrl(text) && !isAbsolute(text);
  const [first = ''] = texts;
  if (texts.length > 1 && !texts.every((text) => /^https?:\/\//i.test(text))) {
    throw wrong('several sources must all be http(s) URLs; give one directory, bucket or repository');
  }
  const source = parseSource(isLocal(first) ? resolve(directory, first) : texts.join(' '));
  const kind = source.kind;
  if (options.endpoint !== undefined) {
    if (kind?.$case !== 's3' && kind?.$case !== 'hub') throw wrong('--endpoint is for s3:// and hf:// sources only');
    kind.value.endpoint = checkEndpoint(options.endpoint);
    if (kind.$case === 's3') kind.value.pathStyle = true;
  }
  if (options.region !== undefined || options.pathStyle !== undefined) {
    if (kind?.$case !== 's3') throw wrong('--region and --path-style are for s3:// sources only');
    kind.value.region = options.region ?? kind.value.region;
    kind.value.pathStyle = options.pathStyle ?? kind.value.pathStyle;
  }
  for (const pair of options.sha256 ?? []) {
    if (kind?.$case !== 'http') throw wrong('--sha256 is for http(s) sources only');
    const match = /^(.+)=([0-9a-f]{64})$/i.exec(pair);
    if (match?.[1] === undefined || match[2] === undefined) {
      throw wrong('--sha256 takes FILE=DIGEST with 64 hexadecimal digits');
    }
    kind.value.sha256[match[1]] = match[2].toLowerCase();
  }
  source.allowPrivate = options.allowPrivate === true;
  source.allowWeakValidators = options.allowWeakValidators === true;
  const mirrors = (options.mirror ?? []).map((text) => parseSource(isLocal(text) ? resolve(directory, text) : text));
  if (mirrors.length > 0) source.mirrors = { sources: mirrors, credentialed: [], sourceHasNone: false };
  source.unusableNames = options.unusableNames === 'skip' ? 'Skip' : 'Fail';
  if (options.originWait !== undefined) {
    const ms = parseDuration(options.originWait);
    if (ms === undefined) throw wrong('--origin-wait takes a time such as 30s, 10m or 1h');
    source.originWaitSeconds = ms / 1000;
  }
  return source;
}

function wrong(message: string): HearthError {
  return new HearthError('InvalidArgument', message);
}
