import { HearthError } from '@hearth/common';
import type { HttpClient } from './http_client.ts';
import { statusError } from './http_error.ts';
import { readIndexPage } from './index_page.ts';
import { printableUrl } from './printable_url.ts';
import type { UnusableNames } from './unusable_names.ts';

/** An entry of index pages: a file, or a folder whose page is empty. */
export interface IndexedName {
  /** Decoded, relative to the first page. */
  path: string;
  kind: 'file' | 'emptyFolder';
  url: URL;
}

const pageLimit = 16 * 1024 * 1024;
/** Index pages of a tree with a loop never end. */
const maxDepth = 64;

/**
 * Yields everything below an index page, depth first. Throws `Unsupported` for a page that is no index, redirects or
 * exceeds 16 MiB; passes names that are not UTF-8 or contain an encoded '/' to `unusable`.
 */
export async function* walkIndex(
  client: HttpClient,
  root: URL,
  authorization: string | undefined,
  unusable: UnusableNames,
  signal: AbortSignal,
): AsyncGenerator<IndexedName> {
  const found = [{ path: '', url: root, depth: 0 }];
  for (let page = found.pop(); page !== undefined; page = found.pop()) {
    const { path, url, depth } = page;
    if (depth > maxDepth) {
      throw new HearthError(
        'Unsupported',
        `${printableUrl(url)} is more than ${maxDepth} folders deep; a link on the server probably leads back to a folder above it`,
      );
    }
    const html = await readPage(client, url, authorization, signal);
    let empty = true;
    for (const { encoded, folder } of readIndexPage(html, url)) {
      empty = false;
      const name = decodeName(encoded);
      const full = `${path}${name ?? encoded}`;
      const target = new URL(folder ? `${encoded}/` : encoded, url);
      if (name === undefined) unusable.add(full, 'not UTF-8, or with a "/" in a name');
      else if (folder) found.push({ path: `${full}/`, url: target, depth: depth + 1 });
      else yield { path: full, kind: 'file', url: target };
    }
    if (empty && path !== '') yield { path: path.slice(0, -1), kind: 'emptyFolder', url };
  }
}

async function readPage(
  client: HttpClient,
  url: URL,
  authorization: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const response = await client.request({
    method: 'GET',
    url,
    headers: { accept: 'text/html' },
    ...(authorization === undefined ? {} : { authorization }),
    redirects: 'follow',
    bodyLimit: pageLimit,
    signal,
  });
  if (response.status !== 200) throw statusError(response.status, response.url);
  const where = printableUrl(url);
  if (response.url.href !== url.href) {
    throw new HearthError(
      'Unsupported',
      `the index page ${where} redirects to ${printableUrl(response.url)}; give that URL instead`,
    );
  }
  if (response.truncated)
    throw new HearthError('Unsupported', `the index page ${where} is over 16 MiB; divide the folder`);
  const type = response.headers['content-type'] ?? '';
  if (!/^(text\/html|application\/xhtml\+xml)\b/i.test(type)) {
    throw new HearthError(
      'Unsupported',
      `${where} ends in "/" but is not an index page in HTML (its type is "${type}"); switch the server's index on, or give the URLs of the files`,
    );
  }
  return response.body.toString('utf8');
}

function decodeName(encoded: string): string | undefined {
  try {
    const name = decodeURIComponent(encoded);
    return name.includes('/') ? undefined : name;
  } catch {
    return undefined;
  }
}
