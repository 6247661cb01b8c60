import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createSecureContext, getCACertificates } from 'node:tls';
import type { experimental } from '@grpc/grpc-js';
import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';

type CertificateProvider = experimental.CertificateProvider;
type AuthorityListener = Parameters<CertificateProvider['addCaCertificateListener']>[0];
type IdentityListener = Parameters<CertificateProvider['addIdentityCertificateListener']>[0];

/** A PEM file, and the name of its setting for messages. */
export interface NamedFile {
  setting: string;
  path: string;
}

export interface TlsFilePaths {
  /** Trusted CAs; undefined: the system's. */
  authorities: NamedFile | undefined;
  /** Own identity; undefined: unauthenticated. */
  identity: { certificate: NamedFile; key: NamedFile } | undefined;
}

interface Contents {
  authorities: Buffer | undefined;
  identity: { certificate: Buffer; privateKey: Buffer } | undefined;
}

const rereadMs = 5_000;

/**
 * Certificates in files that are replaced occasionally, like those of a mounted Secret. Polled every few seconds rather
 * than watched, because a Secret changes by a symlink several levels above the files. New contents apply to the next
 * connection, and only as a consistent set; a half-written set changes nothing.
 */
export class TlsFiles implements CertificateProvider {
  readonly #paths: TlsFilePaths;
  readonly #logger: Logger;
  readonly #cancel: () => void;
  readonly #authorityListeners = new Set<AuthorityListener>();
  readonly #identityListeners = new Set<IdentityListener>();
  #contents: Contents;
  #lastWarning = '';
  #turn: Promise<void> = Promise.resolve();

  private constructor(paths: TlsFilePaths, contents: Contents, logger: Logger, clock: Clock) {
    this.#paths = paths;
    this.#contents = contents;
    this.#logger = logger;
    this.#cancel = clock.every(rereadMs, () => void this.reread());
  }

  /** Throws `InvalidArgument` with the setting and file that cannot be used. */
  static open(paths: TlsFilePaths, logger: Logger, { clock = systemClock }: { clock?: Clock } = {}): TlsFiles {
    return new TlsFiles(paths, check(paths, readNow(paths)), logger, clock);
  }

  get contents(): Contents {
    return this.#contents;
  }

  /** Reads the files now. Never throws; unusable files leave the previous contents in force. */
  async reread(): Promise<void> {
    // Serialized, because a slow read must not restore contents that a later one has replaced.
    const turn = this.#turn.then(() => this.#read());
    this.#turn = turn;
    await turn;
  }

  async #read(): Promise<void> {
    try {
      const contents = await readLater(this.#paths);
      if (isEqual(contents, this.#contents)) return;
      // Replaced between the reading of two files: the next read sees all of them.
      if (!isEqual(contents, await readLater(this.#paths))) return;
      this.#contents = check(this.#paths, contents);
      this.#lastWarning = '';
      this.#logger.info('reloaded certificates', { files: this.#names() });
      for (const listener of this.#authorityListeners) this.#sendAuthorities(listener);
      for (const listener of this.#identityListeners) this.#sendIdentity(listener);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.message !== this.#lastWarning)
        this.#logger.error('rejected new certificates; the old ones stay in use', { error });
      this.#lastWarning = error.message;
    }
  }

  addCaCertificateListener(listener: AuthorityListener): void {
    this.#authorityListeners.add(listener);
    process.nextTick(() => this.#sendAuthorities(listener));
  }

  removeCaCertificateListener(listener: AuthorityListener): void {
    this.#authorityListeners.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#identityListeners.add(listener);
    process.nextTick(() => this.#sendIdentity(listener));
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#identityListeners.delete(listener);
  }

  close(): void {
    this.#cancel();
  }

  #sendAuthorities(listener: AuthorityListener): void {
    const caCertificate = this.#contents.authorities ?? Buffer.from(getCACertificates('default').join('\n'));
    listener({ caCertificate });
  }

  #sendIdentity(listener: IdentityListener): void {
    listener(this.#contents.identity ?? null);
  }

  #names(): string {
    return filesOf(this.#paths)
      .map((file) => file.path)
      .join(', ');
  }
}

function filesOf({ authorities, identity }: TlsFilePaths): NamedFile[] {
  return [authorities, identity?.certificate, identity?.key].filter((file) => file !== undefined);
}

function readNow({ authorities, identity }: TlsFilePaths): Contents {
  const read = (file: NamedFile): Buffer => {
    try {
      return readFileSync(file.path);
    } catch (thrown) {
      throw unreadable(file, thrown);
    }
  };
  return {
    authorities: authorities === undefined ? undefined : read(authorities),
    identity:
      identity === undefined ? undefined : { certificate: read(identity.certificate), privateKey: read(identity.key) },
  };
}

async function readLater({ authorities, identity }: TlsFilePaths): Promise<Contents> {
  const read = async (file: NamedFile): Promise<Buffer> => {
    return await readFile(file.path).catch((thrown) => {
      throw unreadable(file, thrown);
    });
  };
  return {
    authorities: authorities === undefined ? undefined : await read(authorities),
    identity:
      identity === undefined
        ? undefined
        : { certificate: await read(identity.certificate), privateKey: await read(identity.key) },
  };
}

function unreadable({ setting, path }: NamedFile, thrown: unknown): HearthError {
  return new HearthError(
    'InvalidArgument',
    `${setting} ${path} cannot be read (${(thrown as Error).message}); check the path and its permissions`,
  );
}

/** Finds faults before a handshake does: files that are no certificates, or do not belong together. */
function check(paths: TlsFilePaths, contents: Contents): Contents {
  const { authorities, identity } = contents;
  try {
    createSecureContext({
      ...(authorities === undefined ? {} : { ca: authorities }),
      ...(identity === undefined ? {} : { cert: identity.certificate, key: identity.privateKey }),
    });
    if (authorities !== undefined) new X509Certificate(authorities);
    if (identity !== undefined) {
      const belongs = new X509Certificate(identity.certificate).checkPrivateKey(createPrivateKey(identity.privateKey));
      if (!belongs) throw new Error('the key does not belong to the certificate');
    }
  } catch (thrown) {
    const files = filesOf(paths).map(({ setting, path }) => `${setting} ${path}`);
    throw new HearthError(
      'InvalidArgument',
      `the TLS files ${files.join(', ')} cannot be used (${(thrown as Error).message}); they must be PEM and belong together`,
    );
  }
  return contents;
}

function isEqual(a: Contents, b: Contents): boolean {
  const buffers = (one: Contents) => [one.authorities, one.identity?.certificate, one.identity?.privateKey];
  const others = buffers(b);
  return buffers(a).every((buffer, index) => Buffer.compare(buffer ?? empty, others[index] ?? empty) === 0);
}

const empty = Buffer.alloc(0);
