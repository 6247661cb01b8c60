import { HearthError } from '@hearth/common';
import { printableUrl } from './printable_url.ts';
import { fileNameOf } from './source.ts';

/** One URL of a source, and its place in the dataset. */
export interface HttpRoot {
  url: URL;
  /** For a file, its path. For an index page, the folder of its entries, '' for the dataset's root. */
  path: string;
  index: boolean;
  /** Base URL: followed by '/' and an entry's path it is the entry's URL; undefined for URLs with a query. */
  folder: string | undefined;
}

/**
 * A file gets the last part of its URL's path as name. A single index page is the root; among several URLs an index
 * page is a folder named by the last part of its path, so that every path belongs to one URL. Throws `InvalidArgument`
 * for no URL, malformed URLs and duplicate names.
 */
export function httpRoots(urls: readonly string[]): HttpRoot[] {
  if (urls.length === 0) throw new HearthError('InvalidArgument', 'the http source has no URL; give at least one');
  const roots = urls.map((text) => httpRoot(text, urls.length === 1));
  const byPath = new Map<string, HttpRoot>();
  for (const root of roots) {
    const other = byPath.get(root.path);
    if (other !== undefined) {
      throw new HearthError(
        'InvalidArgument',
        `${printableUrl(other.url)} and ${printableUrl(root.url)} would both be "${root.path}"; make two datasets of them`,
      );
    }
    byPath.set(root.path, root);
  }
  return roots;
}

function httpRoot(text: string, single: boolean): HttpRoot {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
    throw new HearthError(
      'InvalidArgument',
      'the http source has a URL that is malformed, not http(s) or with credentials in it; example: https://example.com/model.safetensors',
    );
  }
  url.hash = '';
  const index = url.pathname.endsWith('/');
  if (!index) {
    const folder = url.pathname.slice(0, url.pathname.lastIndexOf('/'));
    return { url, path: fileNameOf(url), index, folder: url.search === '' ? `${url.origin}${folder}` : undefined };
  }
  if (url.search !== '') {
    throw new HearthError(
      'InvalidArgument',
      `the index page ${printableUrl(url)} has a query, which the files below it would not have; give their URLs instead`,
    );
  }
  const whole = url.href.slice(0, -1);
  if (single) return { url, path: '', index, folder: whole };
  const path = fileNameOf(new URL(whole));
  if (path === '') {
    throw new HearthError(
      'InvalidArgument',
      `the index page ${printableUrl(url)} can only be the single URL of a source, since it has no name of its own`,
    );
  }
  return { url, path, index, folder: whole.slice(0, whole.lastIndexOf('/')) };
}

/** The URL of an entry; throws `NotFound` when no URL of the source has it. */
export function locateBelow(roots: readonly HttpRoot[], path: string): URL {
  const url = findBelow(roots, path);
  if (url !== undefined) return url;
  throw new HearthError(
    'NotFound',
    `the source has no URL for ${path}; the dataset was probably registered with other URLs, so add it again`,
  );
}

/** The URL of an entry; undefined when no URL of the source has it. */
export function findBelow(roots: readonly HttpRoot[], path: string): URL | undefined {
  const slash = path.indexOf('/');
  const first = slash < 0 ? path : path.slice(0, slash);
  for (const root of roots) {
    if (!root.index && root.path === path) return root.url;
    if (root.index && root.path === '') return new URL(encodePath(path), root.url);
    if (root.index && slash > 0 && root.path === first) return new URL(encodePath(path.slice(slash + 1)), root.url);
  }
  return undefined;
}

/** Encodes a path as a relative URL. */
export function encodePath(path: string): string {
  // A leading "./" keeps a name with ':' from being read as a scheme.
  return `./${path.split('/').map(encodeURIComponent).join('/')}`;
}
