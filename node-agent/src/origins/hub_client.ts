import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { HearthError } from '@hearth/common';
import type { HubSource } from '@hearth/common/generated/hearth/v1/control.ts';
import * as z from 'zod';
import type { HttpClient, HttpResponse } from './http_client.ts';
import { pageError, refusalOf } from './http_error.ts';
import { strongEtag } from './http_probe.ts';
import { encodePath } from './http_roots.ts';

/** A file of a commit. */
export interface HubFile {
  path: string;
  size: bigint;
  /** Git object id of the file, or of its pointer in large file storage. */
  oid: string;
  /** SHA-256 of a file in large file storage. */
  sha256?: string;
}

/** Maximum growth of an incompressible file. */
const gzipOverhead = 64 * 1024;
const pageLimit = 32 * 1024 * 1024;
/** A page has up to a thousand files. */
const pagesLimit = 100_000;
const commitId = /^[0-9a-f]{40,64}$/;

const repository = /^[\w.-]+(\/[\w.-]+)?$/;

const revisionAnswer = z.object({ sha: z.string().regex(commitId), id: z.string().optional() });
const treeAnswer = z.array(
  z.object({
    type: z.string(),
    path: z.string(),
    oid: z.string(),
    size: z.int().nonnegative(),
    lfs: z.object({ oid: z.string().regex(/^(sha256:)?[0-9a-f]{64}$/), size: z.int().nonnegative() }).nullish(),
  }),
);

/** The place where a hub serves a file. */
export interface HubFilePlace {
  url: URL;
  /** True when the hub redirects to another host. */
  elsewhere: boolean;
  /** True when the hub redirects, so that the URL may expire. */
  redirected: boolean;
}

/** Client of the Hugging Face hub API (https://huggingface.co/docs/hub/api) for one repository. */
export class HubClient {
  readonly #client: HttpClient;
  readonly #source: HubSource;
  readonly #token: string | undefined;
  /** The hub's own name of the repository: it redirects requests for one in another case, or for a former name. */
  #repo: string;

  /** `source` has its endpoint filled in. Throws `InvalidArgument` for an unknown repository type. */
  constructor(client: HttpClient, source: HubSource, token: string | undefined) {
    if (!['', 'model', 'dataset', 'space'].includes(source.repoType)) {
      throw new HearthError(
        'InvalidArgument',
        `the hub source's type "${source.repoType}" is not known; use "model", "dataset" or "space"`,
      );
    }
    this.#client = client;
    this.#source = source;
    this.#token = token;
    this.#repo = source.repo;
  }

  /** The authority for digests in this hub's listings. */
  get endpoint(): string {
    return this.#source.endpoint;
  }

  /** The current commit of a branch, tag or commit. */
  async resolveRevision(revision: string, signal: AbortSignal): Promise<string> {
    const { body } = await this.#get(`${this.#api}/revision/${encodeURIComponent(revision)}`, signal);
    const { sha, id } = this.#parse(revisionAnswer, body);
    if (id !== undefined) this.#learn(id);
    return sha;
  }

  /** Says which name the hub uses, if it is not the source's. */
  warnings(): string[] {
    const { endpoint, repo } = this.#source;
    if (this.#repo === repo) return [];
    return [`HubName: ${endpoint} calls ${repo} ${this.#repo}; agents ask for that, and the source may name it`];
  }

  #learn(repo: string): void {
    if (repository.test(repo)) this.#repo = repo;
  }

  /** The files of a commit, in pages. Throws `ProtocolError` when pages do not end. */
  async *tree(commit: string, signal: AbortSignal): AsyncGenerator<HubFile[]> {
    const url = new URL(`${this.#api}/tree/${commit}?recursive=true`);
    const seen = new Set<string>();
    for (let next: string | undefined = url.search; next !== undefined; ) {
      if (seen.has(next)) throw this.#notHub('it lists the same page again and again');
      if (seen.size >= pagesLimit) throw this.#notHub(`its list has more than ${pagesLimit} pages`);
      seen.add(next);
      url.search = next;
      const { body, headers } = await this.#get(url.href, signal);
      const rows = this.#parse(treeAnswer, body).filter(({ type }) => type === 'file');
      yield rows.map(({ path, size, oid, lfs }) =>
        lfs == null
          ? { path, size: BigInt(size), oid }
          : { path, size: BigInt(lfs.size), oid, sha256: lfs.oid.replace('sha256:', '') },
      );
      next = nextPage(headers.link, url);
    }
  }

  /** URL of a file by commit, whose bytes never change; with the hub's own name of the repository once it is known. */
  fileUrl(commit: string, path: string): URL {
    return this.#urlIn(this.#repo, commit, path);
  }

  /** The same with the source's name, which always stays the same. */
  givenUrl(commit: string, path: string): URL {
    return this.#urlIn(this.#source.repo, commit, path);
  }

  #urlIn(repo: string, commit: string, path: string): URL {
    return new URL(encodePath(path), `${this.#repositories}${repo}/resolve/${commit}/`);
  }

  /** URL of the repositories of this type, with a trailing '/'. */
  get #repositories(): string {
    return `${this.#source.endpoint}/${this.#folder === 'models' ? '' : `${this.#folder}/`}`;
  }

  /** The place where the hub serves a file now. Follows redirects to another name of the repository only. */
  async resolveFile(commit: string, path: string, signal: AbortSignal): Promise<HubFilePlace> {
    return this.#placeOf(await this.#resolve(commit, path, signal));
  }

  async #resolve(commit: string, path: string, signal: AbortSignal): Promise<HttpResponse> {
    const response = await this.#head(commit, path, 'none', signal);
    const named = this.#repositoryAt(response.redirect, commit, path);
    if (named === undefined || named === this.#repo) return response;
    this.#learn(named);
    return await this.#head(commit, path, 'none', signal);
  }

  /** The repository whose file this URL of the hub is; undefined for any other URL. */
  #repositoryAt(url: URL | undefined, commit: string, path: string): string | undefined {
    const { href = '' } = url ?? {};
    const before = new URL(this.#repositories).href;
    const after = this.fileUrl(commit, path).href.slice(before.length + this.#repo.length);
    if (!href.startsWith(before) || !href.endsWith(after)) return undefined;
    const repo = href.slice(before.length, -after.length);
    return repository.test(repo) ? repo : undefined;
  }

  /** The strong ETag of a file at the hub itself; undefined: none, or the file is served elsewhere. */
  async etagOf(commit: string, path: string, signal: AbortSignal): Promise<string | undefined> {
    const response = await this.#head(commit, path, 'sameHost', signal);
    if (response.redirect !== undefined) return undefined;
    this.#placeOf(response);
    return strongEtag(response.headers);
  }

  /** Like `resolveFile`; undefined when only this file is missing. */
  async findFile(commit: string, path: string, signal: AbortSignal): Promise<HubFilePlace | undefined> {
    const response = await this.#resolve(commit, path, signal);
    return lacksFile(response) ? undefined : this.#placeOf(response);
  }

  /**
   * True when a file's bytes hash to the git id of the tree (gitobject format: "blob SIZE NUL bytes"). Reads the whole
   * file and decodes unrequested gzip.
   */
  async hasItsId(commit: string, { path, size, oid }: HubFile, signal: AbortSignal): Promise<boolean> {
    const response = await this.#client.request({
      method: 'GET',
      url: this.fileUrl(commit, path),
      headers: { range: `bytes=0-${size - 1n}` },
      ...this.#authorized(),
      redirects: 'follow',
      bodyLimit: Number(size) + gzipOverhead,
      passing: (answer) => pageError(answer, size),
      signal,
    });
    if (response.status !== 200 && response.status !== 206) throw this.#error(response);
    const bytes = plainBody(response, Number(size));
    const hash = createHash(oid.length === 64 ? 'sha256' : 'sha1').update(`blob ${size}\0`);
    return BigInt(bytes.length) === size && hash.update(bytes).digest('hex') === oid;
  }

  /** Requests a range, because some networks serve large files in no other way. */
  #head(commit: string, path: string, redirects: 'none' | 'sameHost', signal: AbortSignal): Promise<HttpResponse> {
    return this.#client.request({
      method: 'HEAD',
      url: this.fileUrl(commit, path),
      headers: { range: 'bytes=0-0' },
      ...this.#authorized(),
      redirects,
      bodyLimit: 0,
      signal,
    });
  }

  #placeOf(response: HttpResponse): HubFilePlace {
    const { redirect, url, status } = response;
    if (redirect !== undefined) return { url: redirect, elsewhere: redirect.origin !== url.origin, redirected: true };
    // An empty file has no range.
    if (![200, 206, 416].includes(status)) throw this.#error(response);
    return { url, elsewhere: false, redirected: false };
  }

  /** The Authorization header; undefined without a token. */
  authorization(): string | undefined {
    return this.#token === undefined ? undefined : `Bearer ${this.#token}`;
  }

  close(): void {
    this.#client.close();
  }

  get #folder(): string {
    return `${this.#source.repoType || 'model'}s`;
  }

  get #api(): string {
    return `${this.#source.endpoint}/api/${this.#folder}/${this.#repo}`;
  }

  #authorized(): { authorization?: string } {
    const authorization = this.authorization();
    return authorization === undefined ? {} : { authorization };
  }

  async #get(url: string, signal: AbortSignal): Promise<HttpResponse> {
    const response = await this.#client.request({
      method: 'GET',
      url: new URL(url),
      headers: { accept: 'application/json' },
      ...this.#authorized(),
      redirects: 'follow',
      bodyLimit: pageLimit,
      signal,
    });
    if (response.status !== 200) throw this.#error(response);
    if (response.truncated) throw this.#notHub('its answer is over 32 MiB');
    return response;
  }

  #parse<Schema extends z.ZodType>(schema: Schema, body: Buffer): z.infer<Schema> {
    let json: unknown;
    try {
      json = JSON.parse(body.toString('utf8'));
    } catch {
      throw this.#notHub('its answer is not JSON');
    }
    const result = schema.safeParse(json);
    if (result.success) return result.data;
    const { path, message } = result.error.issues[0] ?? { path: [], message: '' };
    throw this.#notHub(`${path.join('.')}: ${message}`);
  }

  #notHub(reason: string): HearthError {
    return new HearthError(
      'ProtocolError',
      `${this.#source.endpoint} does not answer like a hub (${reason}); check the endpoint`,
    );
  }

  /** The hub names the cause in X-Error-Code and does not distinguish private from missing repositories. */
  #error(response: HttpResponse): HearthError {
    const { status, headers } = response;
    const { endpoint, repo } = this.#source;
    const cause = headers['x-error-code'];
    const page = `${endpoint}/${this.#folder === 'models' ? '' : `${this.#folder}/`}${repo}`;
    if (cause === 'GatedRepo') {
      return this.#token === undefined
        ? new HearthError(
            'Unauthenticated',
            `${repo} is gated: accept its conditions at ${page} and give a token of that account (HF_TOKEN)`,
          )
        : new HearthError(
            'PermissionDenied',
            `${repo} is gated and the token's account has no access: accept its conditions at ${page}`,
          );
    }
    if (status === 401) {
      return this.#token === undefined
        ? new HearthError(
            'Unauthenticated',
            `${repo} does not exist at ${endpoint} or is private: check its name, or give a token (HF_TOKEN)`,
          )
        : new HearthError(
            'Unauthenticated',
            `${endpoint} does not accept the token for ${repo}: check that it is valid and may read it`,
          );
    }
    if (status === 403) {
      return new HearthError(
        'PermissionDenied',
        `${endpoint} refuses access to ${repo}: check that the token has the right to read it`,
      );
    }
    if (status === 404 && cause === 'RevisionNotFound') {
      return new HearthError(
        'NotFound',
        `${repo} has no revision "${this.#source.revision || 'main'}"; see ${page} for its branches and tags`,
      );
    }
    if (status === 404 && cause === 'RepoNotFound') {
      return new HearthError(
        'NotFound',
        `there is no ${this.#source.repoType || 'model'} repository ${repo} at ${endpoint} that the agent may see; check its name and type`,
      );
    }
    return refusalOf(response);
  }
}

/** At most `size` bytes; empty when the body does not decode to that few. */
function plainBody({ headers, body }: HttpResponse, size: number): Buffer {
  if (!['gzip', 'x-gzip'].includes(headers['content-encoding'] ?? '')) return body;
  try {
    return gunzipSync(body, { maxOutputLength: Math.max(size, 1) });
  } catch {
    return Buffer.alloc(0);
  }
}

/** True when only the file is missing; for a missing repository or commit the hub names that cause. */
function lacksFile({ status, headers }: HttpResponse): boolean {
  const whole = ['RepoNotFound', 'RevisionNotFound'];
  return (status === 404 || status === 410) && !whole.includes(String(headers['x-error-code']));
}

/** Query of the next page (RFC 8288). Only the query is used, so that a mirror's links cannot lead elsewhere. */
function nextPage(link: string | string[] | undefined, current: URL): string | undefined {
  const found = /<([^<>]*)>\s*;[^,]*\brel="?next"?/.exec([link ?? ''].flat().join(','))?.[1];
  if (found === undefined || !URL.canParse(found, current.href)) return undefined;
  return new URL(found, current).search;
}
