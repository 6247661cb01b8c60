import { Readable, Transform, type TransformCallback } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { GetObjectCommand, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { fromNodeProviderChain } from '@aws-sdk/credential-providers';
import { getSignedUrl, S3RequestPresigner } from '@aws-sdk/s3-request-presigner';
import { HearthError } from '@hearth/common';
import type { AddressPolicy } from './address_policy.ts';
import type { Connections } from './connections.ts';
import type { HttpClient } from './http_client.ts';
import type { S3Credentials } from './origin.ts';
import { type S3Context, s3Error } from './s3_error.ts';
import { ServerClock, toleratedSkewMs } from './server_clock.ts';

export interface S3AccessOptions {
  bucket: string;
  /** '' for AWS. */
  endpoint: string;
  /** '': from the environment or profile, else us-east-1. */
  region: string;
  pathStyle: boolean;
  /** Undefined: the machine's credentials if permitted; without any, requests are unsigned. */
  credentials: S3Credentials | undefined;
  /** True when the usual AWS chain (environment, profile, instance) is permitted. */
  nodeIdentity: boolean;
  connections: Connections;
  policy: AddressPolicy;
  attempts: number;
  /** For requests without a signature. */
  client: HttpClient;
}

type Identity = S3Credentials & { expiration?: Date };

/**
 * Message of the SDK's default chain when no provider is configured; other messages mean that a configured provider is
 * broken.
 */
const nothingConfigured = 'Could not load credentials from any providers';
/** A region that every compatible server accepts, and that AWS corrects. */
const fallbackRegion = 'us-east-1';
/** Regional token services are called the same way. */
const tokenService = new URL('https://sts.amazonaws.com');
const socketTimeoutMs = 30_000;
const signaturesPerTurn = 256;
const answerLimit = 32 * 1024 * 1024;

/** Requests to one bucket, signed when there are credentials. */
export class S3Access {
  readonly client: S3Client;
  readonly context: S3Context;
  readonly #identity: (() => Promise<Identity>) | undefined;
  /** URL of the bucket without a trailing '/', in the style of requests. */
  readonly #bucketUrl: URL;
  readonly #http: HttpClient;
  readonly #serverClock: ServerClock;

  private constructor(
    client: S3Client,
    context: S3Context,
    identity: (() => Promise<Identity>) | undefined,
    bucketUrl: URL,
    http: HttpClient,
  ) {
    this.client = client;
    this.context = context;
    this.#identity = identity;
    this.#bucketUrl = bucketUrl;
    this.#http = http;
    this.#serverClock = new ServerClock(http, bucketUrl);
  }

  /** Resolves credentials, region and endpoint. Throws like `s3Error`, and `PermissionDenied` of the address policy. */
  static async open(options: S3AccessOptions): Promise<S3Access> {
    const { bucket, endpoint, pathStyle, connections } = options;
    const context = {
      bucket,
      host: endpoint === '' ? 'AWS' : new URL(endpoint).host,
      proxy: '',
      region: options.region,
      anonymous: false,
      nodeIdentity: options.nodeIdentity,
    };
    try {
      const identity = await findIdentity(options);
      const fromMachine = options.credentials === undefined && options.nodeIdentity;
      const region = options.region || (fromMachine ? await configuredRegion() : fallbackRegion);
      const config: S3ClientConfig = {
        region,
        ...(endpoint === '' ? {} : { endpoint }),
        // Without the machine's identity, its configuration must not choose the endpoint.
        ignoreConfiguredEndpointUrls: !fromMachine,
        forcePathStyle: pathStyle,
        maxAttempts: options.attempts,
        credentials: identity ?? { accessKeyId: 'anonymous', secretAccessKey: 'anonymous' },
        ...(identity === undefined ? { signer: { sign: async (request) => request } } : {}),
      };
      const bucketUrl = await bucketUrlOf(config, bucket);
      await options.policy.checkHost(bucketUrl);
      const { http: httpAgent, https: httpsAgent } = connections.agentsFor(bucketUrl);
      const timeouts = { connectionTimeout: socketTimeoutMs, socketTimeout: socketTimeoutMs };
      const client = new S3Client({ ...config, requestHandler: { httpAgent, httpsAgent, ...timeouts } });
      boundAnswers(client, context.host);
      return new S3Access(
        client,
        {
          ...context,
          host: bucketUrl.host,
          proxy: connections.proxyFor(bucketUrl),
          region,
          anonymous: identity === undefined,
        },
        identity,
        bucketUrl,
        options.client,
      );
    } catch (thrown) {
      throw s3Error(thrown, context);
    }
  }

  /**
   * Presigned URLs of objects (Signature Version 4, query parameters), valid for `seconds` or for the remaining life of
   * the credentials, whichever is shorter. Signed with the server's time; `expiresAt` is in that of this machine.
   */
  async presign(keys: string[], seconds: number): Promise<{ urls: string[]; expiresAt: number | undefined }> {
    const { origin, protocol, hostname, port, host, pathname } = this.#bucketUrl;
    const prefix = pathname === '/' ? '' : pathname;
    const paths = keys.map((key) => `${prefix}/${encodeKey(key)}`);
    if (this.#identity === undefined) return { urls: paths.map((path) => origin + path), expiresAt: undefined };
    const now = this.#http.clock.date();
    try {
      const signingDate = new Date(now.getTime() + (await this.#serverClock.offsetMs(this.#systemClockOffset)));
      const identity = await this.#identity();
      const left = identity.expiration === undefined ? seconds : (identity.expiration.getTime() - now.getTime()) / 1000;
      const lifetime = Math.max(1, Math.min(seconds, Math.floor(left)));
      const presigner = new S3RequestPresigner({ ...this.client.config, credentials: identity });
      const urls: string[] = [];
      for (const path of paths) {
        // Signing is CPU-bound: yield to other work in between.
        if (urls.length % signaturesPerTurn === signaturesPerTurn - 1) await turn();
        const request = {
          protocol,
          hostname,
          ...(port === '' ? {} : { port: Number(port) }),
          method: 'GET',
          path,
          headers: { host },
        };
        const signed = await presigner.presign(request, {
          expiresIn: lifetime,
          signingDate,
        });
        urls.push(`${origin}${path}${queryString(signed.query ?? {})}`);
      }
      return { urls, expiresAt: now.getTime() + lifetime * 1000 };
    } catch (thrown) {
      throw s3Error(thrown, this.context);
    }
  }

  /** A warning when the clocks differ so much that signatures need the server's time. */
  clockWarnings(): string[] {
    if (Math.abs(this.#systemClockOffset) < toleratedSkewMs) return [];
    const minutes = Math.round(this.#systemClockOffset / 60_000);
    return [
      `ClockSkew: the clock of the node that listed it is ${Math.abs(minutes)} minutes ${minutes > 0 ? 'behind' : 'ahead of'} ` +
        `that of ${this.context.host}; requests are signed with the server's time: set the node's clock (NTP)`,
    ];
  }

  /** Milliseconds by which the server's clock was ahead of this machine's in the SDK's requests. */
  get #systemClockOffset(): number {
    return this.client.config.systemClockOffset;
  }

  close(): void {
    this.client.destroy();
  }
}

/**
 * Encodes a key as a URL path: everything but unreserved characters (RFC 3986) and '/' is percent-encoded, as S3 signs
 * it.
 */
export function encodeKey(key: string): string {
  return key.split('/').map(encodeStrictly).join('/');
}

function encodeStrictly(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

function queryString(query: Record<string, unknown>): string {
  const pairs = Object.entries(query).map(
    ([name, value]) => `${encodeStrictly(name)}=${encodeStrictly(String(value))}`,
  );
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

/**
 * Listings and errors are buffered whole, so oversized responses are aborted. A page of a thousand longest keys,
 * percent-encoded, takes about 4 MiB.
 */
function boundAnswers(client: S3Client, host: string): void {
  client.middlewareStack.add(
    (next) => async (given) => {
      const result = await next(given);
      const answer = result.response as { body?: unknown };
      if (answer.body instanceof Readable) answer.body = answer.body.pipe(new LimitedBody(host, answer.body));
      return result;
    },
    { step: 'deserialize', name: 'boundAnswers', priority: 'low' },
  );
}

class LimitedBody extends Transform {
  readonly #host: string;
  readonly #source: Readable;
  #bytes = 0;

  constructor(host: string, source: Readable) {
    super();
    this.#host = host;
    this.#source = source;
    source.on('error', (error) => this.destroy(error));
  }

  override _transform(piece: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#bytes += piece.length;
    if (this.#bytes <= answerLimit) {
      done(null, piece);
      return;
    }
    this.#source.destroy();
    done(
      new HearthError(
        'ProtocolError',
        `an answer of ${this.#host} is over ${answerLimit / 2 ** 20} MiB, longer than any S3 server's; check the endpoint`,
      ),
    );
  }
}

/** The SDK knows the bucket hosts of all partitions: its URL of one key yields that of all. Makes no request. */
async function bucketUrlOf(config: S3ClientConfig, bucket: string): Promise<URL> {
  const client = new S3Client(config);
  try {
    const example = new URL(await getSignedUrl(client, new GetObjectCommand({ Bucket: bucket, Key: 'k' })));
    return new URL(example.pathname.replace(/\/k$/, ''), example.origin);
  } finally {
    client.destroy();
  }
}

type Given = Pick<S3AccessOptions, 'credentials' | 'nodeIdentity' | 'connections'>;

async function findIdentity({
  credentials,
  nodeIdentity,
  connections,
}: Given): Promise<(() => Promise<Identity>) | undefined> {
  if (credentials !== undefined) return async () => credentials;
  if (!nodeIdentity) return undefined;
  // Token services are public; the machine's own metadata service is reached by other means.
  const proxied = connections.proxyFor(tokenService) !== '';
  const requestHandler = { httpsAgent: connections.agentsFor(tokenService).https };
  const chain = fromNodeProviderChain(proxied ? { clientConfig: { requestHandler } } : {});
  try {
    await chain();
  } catch (error) {
    if (error instanceof Error && error.message === nothingConfigured) return undefined;
    throw error;
  }
  return chain;
}

async function configuredRegion(): Promise<string> {
  const client = new S3Client({});
  try {
    return await client.config.region();
  } catch {
    return fallbackRegion;
  } finally {
    client.destroy();
  }
}
