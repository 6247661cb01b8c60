import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { HearthError } from './error.ts';
import { createLogger, hideInUrls } from './logger.ts';

function capture(format: 'json' | 'pretty' | 'auto', isTTY = false) {
  const lines: string[] = [];
  const stream = Object.assign(
    new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk).trimEnd());
        done();
      },
    }),
    { isTTY },
  );
  return { lines, logger: createLogger({ level: 'info', format, stream, fields: { node: 'n1' } }) };
}

describe('logger', () => {
  it('writes one JSON object a line with the common fields', () => {
    const { lines, logger } = capture('auto');
    logger.child({ job: 'j' }).info('job started', { bytes: 5n, error: new HearthError('NotFound', 'gone') });
    logger.debug('not written');
    assert.equal(lines.length, 1);
    const line = JSON.parse(lines[0] ?? '');
    assert.match(line.time, /^\d{4}-/);
    assert.deepEqual(
      { ...line, time: '' },
      {
        time: '',
        level: 'info',
        message: 'job started',
        node: 'n1',
        job: 'j',
        bytes: '5',
        error: { code: 'NotFound', message: 'gone' },
      },
    );
  });

  it('is pretty on a terminal', () => {
    const { lines, logger } = capture('auto', true);
    logger.warn('watch out', { count: 3 });
    assert.match(lines[0] ?? '', /^\d\d:\d\d:\d\d\.\d{3} WARN {2}watch out node=n1 count=3$/);
  });

  it('hides secrets in fields at every depth and in URLs', () => {
    const { lines, logger } = capture('json');
    logger.info('fetching https://u:p@host/a?X-Amz-Signature=abc', {
      secretKey: 'abc',
      request: { headers: { authorization: 'abc' }, url: 'https://host/b?sig=abc#x' },
      list: [{ token: 'abc' }],
      bytes: new Uint8Array([1]),
    });
    assert.ok(!lines.join().includes('abc'), lines.join());
    assert.ok(!lines.join().includes('u:p'));
    assert.match(lines[0] ?? '', /https:\/\/host\/b\?\[hidden\]/);
  });

  it('leaves URLs without secrets alone', () => {
    assert.equal(hideInUrls('see https://host/path/a.txt for more'), 'see https://host/path/a.txt for more');
    assert.equal(hideInUrls('etcd://user:pw@h:1,h:2 away'), 'etcd://h:1,h:2 away');
  });
});
