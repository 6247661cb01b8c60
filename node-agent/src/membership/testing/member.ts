// A process that is a member until killed. Usage: node member.ts ADDRESS NAME
import { silentLogger } from '@hearth/common';
import { Session } from '../../records/index.ts';
import { openStore } from '../../store/index.ts';
import { Membership } from '../membership.ts';

const [, , address = '', node = ''] = process.argv;
const store = await openStore(address);
const session = new Session(store, silentLogger, 1);
const self = { node, incarnation: String(process.pid), wire: [], ready: true };
const membership = new Membership({ store, session, logger: silentLogger, self });
await membership.joined();
