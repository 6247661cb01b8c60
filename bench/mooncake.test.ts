import assert from 'node:assert/strict';
import { mooncakeBeside, rateIn, segmentIn } from './mooncake.ts';

describe('Mooncake beside ours', () => {
  it('is understood by what it says', () => {
    const starting = 'I1126 03:37:41 transfer_engine_impl.cpp:116] server_name: 127.0.0.1 port: 12345\n';
    assert.equal(segmentIn(starting), undefined);
    const listening = `${starting}I1126 transfer_engine_impl.cpp:183] Transfer Engine RPC using P2P handshake, listening on 127.0.0.1:15899\n`;
    assert.equal(segmentIn(listening), '127.0.0.1:15899');
    assert.equal(rateIn('Test completed: duration 2.02, batch count 4, throughput 0.494 GiB/s\n'), 0.494);
    assert.throws(() => rateIn('FAILED'), /gave no throughput/);
  });

  it('says that it is not installed where it is not in the path', () => {
    const before = process.env.PATH;
    process.env.PATH = '/nowhere';
    try {
      assert.deepEqual(
        mooncakeBeside(1).map(({ measure }) => measure),
        [undefined, undefined],
      );
    } finally {
      process.env.PATH = before;
    }
  });
});
