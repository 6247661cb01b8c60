import { openStore, type Store } from '../index.ts';
import { etcdFixture, etcdTlsFixture, type StoreFixture, sqliteFixture } from './fixtures.ts';

/** The environment of one test: a new, empty store, and further clients of it. */
export interface StoreEnvironment {
  readonly fixture: StoreFixture;
  readonly address: string;
  readonly store: Store;
  open(): Promise<Store>;
}

/** Runs the same tests against every kind of store. A kind that cannot run here is skipped with the reason. */
export function describeStores(what: string, tests: (environment: StoreEnvironment) => void): void {
  for (const fixture of [sqliteFixture(), etcdFixture(), etcdTlsFixture()]) {
    describe(`store: ${fixture.name}: ${what}`, () => {
      const opened: Store[] = [];
      let address = '';
      let store: Store | undefined;
      const open = async (): Promise<Store> => {
        const one = await openStore(address);
        opened.push(one);
        return one;
      };

      before(async function () {
        const missing = await fixture.start();
        if (missing === undefined) return;
        console.log(`      skipped: ${missing}`);
        this.skip();
      });
      after(() => fixture.stop());
      beforeEach(async () => {
        address = fixture.freshAddress();
        store = await open();
      });
      afterEach(async () => {
        for (const one of opened.splice(0)) await one.close();
      });

      tests({
        fixture,
        get address() {
          return address;
        },
        get store() {
          if (store === undefined) throw new Error('the store is opened before each test');
          return store;
        },
        open,
      });
    });
  }
}
