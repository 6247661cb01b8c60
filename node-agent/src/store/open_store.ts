import { HearthError } from '@hearth/common';
import { EtcdStore } from './etcd_store.ts';
import { SqliteStore } from './sqlite_store.ts';
import type { Store, StoreOptions } from './store.ts';

/**
 * Opens a store by address: `sqlite:PATH`, or `etcd://` (see parseEtcdAddress). A SQLite file is opened or created
 * before this returns; an etcd may be unreachable. Throws `InvalidArgument` for any other address.
 */
export async function openStore(address: string, options: StoreOptions = {}): Promise<Store> {
  if (address.startsWith('etcd://')) return EtcdStore.open(address, options);
  if (!address.startsWith('sqlite:')) {
    // Repeats only the scheme, because the rest may contain a password.
    const scheme = /^[a-z0-9+]{1,20}:/i.exec(address)?.[0] ?? 'no scheme';
    throw new HearthError(
      'InvalidArgument',
      `The store's address begins with ${scheme}, but must be sqlite:PATH or etcd://HOST:PORT,... Correct --store.`,
    );
  }
  const path = address.slice('sqlite:'.length);
  if (path === '' || path.startsWith(':') || path.startsWith('//') || path.includes('?')) {
    throw new HearthError(
      'InvalidArgument',
      `'${address}' names no file for the store. Write sqlite:PATH, such as sqlite:/var/lib/hearth/store.db.`,
    );
  }
  return SqliteStore.open(path, options.clock === undefined ? {} : { time: options.clock });
}
