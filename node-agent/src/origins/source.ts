import { isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HearthError } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { printableUrl } from './printable_url.ts';
import { describeVolume } from './volume_origin.ts';

const examples =
  'examples: /models/llama, s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-west-1, ' +
  'https://example.com/model.safetensors, https://example.com/models/ (an index page), hf://org/model@main, volume://name/path';

function wrong(reason: string): HearthError {
  return new HearthError('InvalidArgument', `the source ${reason}; ${examples}`);
}

/**
 * Parses a source as a person writes it:
 *   a directory             `/models/llama`, `./llama`, `dir llama`, `file:///models/llama`
 *   S3 and compatible       `s3://bucket/prefix?endpoint=URL&region=NAME&pathStyle=true`
 *   files or an index page  `https://host/a.bin https://host/b.bin#sha256=HEX`, `https://host/models/`
 *   the built-in files      `selftest://`
 *   files of a volume       `volume://name/path`
 *   a Hugging Face hub      `hf://org/model@revision`, `hf://datasets/org/name`, `hf://spaces/org/name`, `?endpoint=URL&layout=hub`
 * Relative directories are resolved against the working directory. Throws `InvalidArgument` with the fault and examples,
 * but without the text, which may contain credentials. `allowPrivate` stays false.
 */
export function parseSource(text: string): Source {
  const trimmed = text.trim();
  if (trimmed === '') throw wrong('is empty');
  if (trimmed.includes('\0')) throw wrong('has a NUL byte in it');
  const kind = parseKind(trimmed);
  return { kind, allowPrivate: false, unusableNames: 'Fail', allowWeakValidators: false };
}

function parseKind(text: string): Exclude<Source['kind'], undefined> {
  const directory = /^dir\s+(.+)$/s.exec(text)?.[1];
  if (directory !== undefined) return { $case: 'directory', value: { path: resolve(directory) } };
  if (isAbsolute(text) || /^\.{1,2}(\/|$)/.test(text)) return { $case: 'directory', value: { path: resolve(text) } };
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  switch (scheme) {
    case 'file':
      return { $case: 'directory', value: { path: parseFileUrl(text) } };
    case 's3':
      return { $case: 's3', value: parseS3(text.slice('s3://'.length)) };
    case 'http':
    case 'https':
      return { $case: 'http', value: parseHttp(text.split(/\s+/)) };
    case 'hf':
      return { $case: 'hub', value: parseHub(text.slice('hf://'.length)) };
    case 'volume':
      return { $case: 'volume', value: parseVolume(text.slice('volume://'.length)) };
    case 'selftest':
      if (text.length > 'selftest://'.length) throw wrong('has something after selftest://, which takes nothing');
      return { $case: 'selfTest', value: {} };
    case undefined:
      throw wrong('has no scheme and does not begin with "/", "./" or "../" as a directory does');
    default:
      throw wrong(`has the scheme "${scheme}", which is not known`);
  }
}

function parseFileUrl(text: string): string {
  try {
    return resolve(fileURLToPath(text));
  } catch {
    throw wrong('is not a file URL of this machine: write file:/// and an absolute path');
  }
}

function parseS3(rest: string) {
  const [place, query] = splitQuery(rest);
  const slash = place.indexOf('/');
  const bucket = slash < 0 ? place : place.slice(0, slash);
  const prefix = slash < 0 ? '' : place.slice(slash + 1);
  if (bucket.includes('@'))
    throw wrong('has credentials in it: give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile');
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]$/.test(bucket)) {
    throw wrong('has no usable bucket name after "s3://" (3 or more letters, digits, ".", "-" or "_")');
  }
  const parameters = readParameters(query, ['endpoint', 'region', 'pathStyle']);
  const endpoint = readEndpoint(parameters.get('endpoint'));
  const pathStyle = parameters.get('pathStyle') ?? '';
  if (!['', 'true', 'false'].includes(pathStyle)) throw wrong('has a pathStyle that is neither "true" nor "false"');
  return {
    bucket,
    prefix,
    endpoint,
    region: parameters.get('region') ?? '',
    // Compatible servers rarely have a DNS name for each bucket.
    pathStyle: pathStyle === '' ? endpoint !== '' : pathStyle === 'true',
  };
}

function parseHttp(texts: string[]) {
  const urls: string[] = [];
  const sha256: Record<string, string> = {};
  for (const text of texts) {
    if (!URL.canParse(text)) throw wrong('has a malformed URL in it (several URLs are separated by spaces)');
    const url = new URL(text);
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw wrong('mixes http(s) URLs with something else');
    if (url.username !== '' || url.password !== '') throw wrong('has credentials in its URL: give a token instead');
    const digest = /^#sha256=([0-9a-f]{64})$/i.exec(url.hash)?.[1];
    if (url.hash !== '' && digest === undefined)
      throw wrong('has a fragment that is not "#sha256=" and 64 hexadecimal digits');
    url.hash = '';
    if (digest !== undefined) {
      if (url.pathname.endsWith('/')) throw wrong('gives a SHA-256 for an index page; it belongs to a file');
      sha256[fileNameOf(url)] = digest.toLowerCase();
    }
    urls.push(url.href);
  }
  return { urls, sha256 };
}

function parseHub(rest: string) {
  const [place, query] = splitQuery(rest);
  const at = place.indexOf('@');
  const revision = at < 0 ? 'main' : place.slice(at + 1);
  const parts = (at < 0 ? place : place.slice(0, at)).split('/');
  const types: Record<string, string> = { models: 'model', datasets: 'dataset', spaces: 'space' };
  const repoType = parts.length > 1 ? types[parts[0] ?? ''] : undefined;
  if (repoType !== undefined) parts.shift();
  const valid = parts.every((part) => /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(part));
  if (!valid || parts.length > 2) {
    throw wrong(
      'has no usable repository after "hf://": organisation/name or name (files are chosen by include and exclude)',
    );
  }
  if (revision === '' || /[\s?#\\]|\.\./.test(revision))
    throw wrong('has no usable revision after "@": a branch, a tag or a commit');
  const parameters = readParameters(query, ['endpoint', 'layout']);
  const endpoint = readEndpoint(parameters.get('endpoint'));
  const layout = parameters.get('layout') ?? '';
  if (!['', 'files', 'hub'].includes(layout)) throw wrong('has a layout that is neither "files" nor "hub"');
  return {
    endpoint,
    repoType: repoType ?? 'model',
    repo: parts.join('/'),
    revision,
    layout: layout === 'hub' ? 'hub' : '',
  };
}

function parseVolume(rest: string) {
  const [name = '', ...parts] = rest.split('/');
  if (!/^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/.test(name))
    throw wrong('has no usable name of a volume after "volume://"');
  const path = parts.filter((part) => part !== '' && part !== '.');
  if (path.includes('..')) throw wrong('has ".." in its path; name the folder itself');
  return { name, path: path.join('/') };
}

function splitQuery(text: string): [string, string] {
  const mark = text.indexOf('?');
  return mark < 0 ? [text, ''] : [text.slice(0, mark), text.slice(mark + 1)];
}

function readParameters(query: string, known: string[]): URLSearchParams {
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (!known.includes(name)) throw wrong(`has an unknown parameter after "?": known are ${known.join(', ')}`);
  }
  return parameters;
}

function readEndpoint(text: string | undefined | null): string {
  if (text === undefined || text === null || text === '') return '';
  return checkEndpoint(text);
}

/**
 * An endpoint without a trailing '/'; throws `InvalidArgument` unless it is an http(s) URL without credentials and
 * query.
 */
export function checkEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    throw wrong('has an endpoint that is not a plain http(s) URL such as https://s3.example.com');
  }
  if (url.username !== '' || url.password !== '') throw wrong('has credentials in its endpoint');
  return url.href.replace(/\/+$/, '');
}

/** The file's name: the last part of the URL's path, decoded. Throws `InvalidArgument` for an invalid name. */
export function fileNameOf(url: URL): string {
  const last = url.pathname.slice(url.pathname.lastIndexOf('/') + 1);
  try {
    const name = decodeURIComponent(last);
    if (!name.includes('/')) return name;
  } catch {
    // Not UTF-8: refused below.
  }
  throw wrong(`has a URL whose last part "${last}" is not UTF-8 or holds an encoded "/"`);
}

/** The source as a person writes it, without credentials and queries of http URLs. */
export function describeSource(source: Source): string {
  const kind = source.kind;
  switch (kind?.$case) {
    case undefined:
      return '(no source)';
    case 'directory':
      return kind.value.path;
    case 's3': {
      const { bucket, prefix, endpoint, region } = kind.value;
      const query = [endpoint && `endpoint=${endpoint}`, region && `region=${region}`].filter((part) => part !== '');
      return `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}${query.length === 0 ? '' : `?${query.join('&')}`}`;
    }
    case 'http':
      return kind.value.urls.map(printableUrl).join(' ');
    case 'selfTest':
      return 'selftest://';
    case 'volume':
      return describeVolume(kind.value.name, kind.value.path);
    case 'hub': {
      const { endpoint, repoType, repo, revision, layout } = kind.value;
      const folder = repoType === '' || repoType === 'model' ? '' : `${repoType}s/`;
      const parameters = [
        ...(endpoint === '' ? [] : [`endpoint=${endpoint}`]),
        ...(layout === 'hub' ? ['layout=hub'] : []),
      ];
      const query = parameters.length === 0 ? '' : `?${parameters.join('&')}`;
      return `hf://${folder}${repo}@${revision || 'main'}${query}`;
    }
  }
}
