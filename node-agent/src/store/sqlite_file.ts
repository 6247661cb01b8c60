import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, openSync, statfsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type ErrorCode, HearthError } from '@hearth/common';

// SQLite header fields: "Hrth" as application_id marks a Hearth file; user_version is the layout below.
const applicationId = 0x48727468;
const layoutVersion = 1;

// Keys and values are BLOBs: compared bytewise like in etcd, and zero bytes survive. meta.compacted is the oldest
// revision at which a watch may start. lease.expires_at is in milliseconds of the boot named by boot_id.
const layout = `
CREATE TABLE meta (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  identity TEXT NOT NULL,
  revision INTEGER NOT NULL,
  compacted INTEGER NOT NULL,
  event_count INTEGER NOT NULL,
  event_bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE entry (
  key BLOB PRIMARY KEY,
  value BLOB NOT NULL,
  create_revision INTEGER NOT NULL,
  mod_revision INTEGER NOT NULL,
  version INTEGER NOT NULL,
  lease INTEGER
) STRICT;
CREATE INDEX entry_by_lease ON entry (lease) WHERE lease IS NOT NULL;
CREATE TABLE event (
  revision INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  key BLOB NOT NULL,
  value BLOB,
  create_revision INTEGER NOT NULL,
  version INTEGER NOT NULL,
  lease INTEGER,
  PRIMARY KEY (revision, sequence)
) STRICT;
CREATE TABLE lease (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ttl_ms INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  boot_id TEXT NOT NULL
) STRICT;
`;

// statfs(2) types of file systems that do not share memory between machines, which SQLite's write-ahead log needs
// (https://sqlite.org/wal.html, "Noop").
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
]);

// Primary result codes of https://sqlite.org/rescode.html.
const codes: ReadonlyMap<number, [ErrorCode, string]> = new Map([
  [3, ['PermissionDenied', 'Give this user the right to read and write it.']],
  [5, ['Unavailable', 'Another process kept it locked for too long; nothing was written.']],
  [6, ['Unavailable', 'It is locked; nothing was written.']],
  [8, ['PermissionDenied', 'It is read-only here; give this user the right to write it and its folder.']],
  [10, ['IoError', 'Look at the kernel log for errors of the disk.']],
  [11, ['Corrupt', 'Stop all agents of this machine, remove the file and start them: they fill it again.']],
  [13, ['OutOfSpace', 'Free some space on its file system.']],
  [14, ['IoError', 'Does its folder exist, and may this user write there?']],
  [26, ['InvalidArgument', 'Name another file.']],
]);

/** Converts an error of SQLite to a HearthError. */
export function sqliteError(path: string, thrown: unknown): HearthError {
  if (thrown instanceof HearthError) return thrown;
  if (thrown instanceof Error && 'errcode' in thrown && typeof thrown.errcode === 'number') {
    const [code, advice] = codes.get(thrown.errcode & 0xff) ?? ['Internal', 'Please report this.'];
    return new HearthError(code, `The store ${path}: ${thrown.message}. ${advice}`, { cause: thrown });
  }
  return HearthError.from(thrown).within(`The store ${path}`);
}

export interface SqliteFile {
  readonly path: string;
  readonly database: DatabaseSync;
  /** Created with the file: another identity is another store. */
  readonly identity: string;
  /** True when the path names another file, or none. */
  replaced(): boolean;
}

/**
 * Opens the store's file; creates it and its folder if missing. Safe in several processes at once. Every statement
 * waits up to `busyTimeoutMs` for other writers.
 */
export function openSqliteFile(path: string, busyTimeoutMs: number): SqliteFile {
  const absolute = resolve(path);
  try {
    makeFolder(dirname(absolute));
    // SQLite gives its log files the mode of the main file.
    closeSync(openSync(absolute, 'a', 0o600));
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    throw new HearthError(
      code === 'EACCES' || code === 'EPERM' || code === 'EROFS' ? 'PermissionDenied' : 'IoError',
      `The store's file ${absolute} cannot be opened (${message}). Name one in a folder that this user may write.`,
    );
  }
  const network = networkFileSystems.get(statfsSync(absolute).type);
  if (network !== undefined) {
    throw new HearthError(
      'Unsupported',
      `The store's file ${absolute} is on a network file system (${network}), where SQLite cannot share it safely. Name a file on a local disk, or use etcd:// for many machines.`,
    );
  }
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(absolute, { timeout: busyTimeoutMs });
    enterWriteAheadLog(database, busyTimeoutMs);
    // A commit survives the death of any process. The file stays consistent after a power loss, which may lose the last
    // commits: acceptable, because every process that saw them ended with the machine.
    database.exec('PRAGMA synchronous = NORMAL');
    createLayout(absolute, database);
    const { identity } = database.prepare('SELECT identity FROM meta').get() as { identity: string };
    const opened = statSync(absolute);
    const replaced = (): boolean => {
      const now = statSync(absolute, { throwIfNoEntry: false });
      return now === undefined || now.ino !== opened.ino || now.dev !== opened.dev;
    };
    return { path: absolute, database, identity, replaced };
  } catch (thrown) {
    database?.close();
    throw sqliteError(absolute, thrown);
  }
}

// Node's recursive mkdir never returns for a folder that cannot be created in /proc.
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path);
  } catch (thrown) {
    // Another process was faster.
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown;
  }
}

// The change to WAL needs exclusive access and ignores the busy timeout.
function enterWriteAheadLog(database: DatabaseSync, busyTimeoutMs: number): void {
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  for (let waitedMs = 0; ; waitedMs += 20) {
    try {
      database.exec('PRAGMA journal_mode = WAL');
      return;
    } catch (thrown) {
      const busy = thrown instanceof Error && 'errcode' in thrown && (Number(thrown.errcode) & 0xff) === 5;
      if (!busy || waitedMs >= busyTimeoutMs) throw thrown;
      Atomics.wait(sleeper, 0, 0, 20);
    }
  }
}

function createLayout(path: string, database: DatabaseSync): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    const { application_id: application } = database.prepare('PRAGMA application_id').get() as {
      application_id: number;
    };
    const { tables } = database.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as { tables: number };
    if (tables > 0 && application !== applicationId) {
      throw new HearthError('InvalidArgument', `${path} is a database of another program. Name another file.`);
    }
    if (tables > 0 && version !== layoutVersion) {
      throw new HearthError(
        'Unsupported',
        `The store ${path} has layout ${version}, but this version of hearth knows layout ${layoutVersion}. Run all agents of this machine in one version, or name another file.`,
      );
    }
    if (tables === 0) {
      database.exec(layout);
      database.prepare('INSERT INTO meta VALUES (1, ?, 1, 1, 0, 0)').run(randomUUID());
      database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${layoutVersion}`);
    }
    database.exec('COMMIT');
  } catch (thrown) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw thrown;
  }
}
