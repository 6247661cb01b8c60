import assert from 'node:assert/strict';
import { refusalWords, withoutAuthorization } from './refusal_words.ts';

const wordsOf = (text: string) => refusalWords(Buffer.from(text));

describe('refusalWords', () => {
  it('extracts the words of S3, JSON, pages and plain text', () => {
    const signature = 'A'.repeat(64);
    assert.equal(
      wordsOf(`<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message>
        <StringToSign>${signature}</StringToSign></Error>`),
      'AccessDenied: Request has expired',
    );
    assert.equal(wordsOf('{"error": "Sign in first"}'), 'Sign in first');
    assert.equal(wordsOf('{"code": 7}'), '');
    assert.equal(wordsOf('<html><head><title>403 Forbidden</title></head><body>x</body></html>'), '403 Forbidden');
    assert.equal(wordsOf('<html><body>Service is busy</body>'), 'Service is busy');
    assert.equal(
      wordsOf('SignatureError: key pair id is\n not known here'),
      'SignatureError: key pair id is not known here',
    );
    assert.equal(wordsOf(''), '');
  });

  it('removes secrets and control characters, and bounds the length', () => {
    const key = 'AKIAIOSFODNN7EXAMPLEabcdefgh';
    assert.equal(wordsOf(`bad key ${key} for /x?X-Amz-Signature=abc&y=z`), 'bad key … for /x?…');
    assert.equal(wordsOf('a\u001b[31mb\u0000'), 'a[31mb');
    assert.equal(wordsOf('word '.repeat(100)).length, 200);
  });

  it("removes the request's token", () => {
    const body = Buffer.from('not with Bearer hf_short, hf_short');
    assert.equal(withoutAuthorization(body, 'Bearer hf_short').toString(), 'not with Bearer …, …');
    assert.equal(withoutAuthorization(body, undefined), body);
  });
});
