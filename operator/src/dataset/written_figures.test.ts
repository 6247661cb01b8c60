import assert from 'node:assert/strict';
import { WrittenFigures } from '../reconciler/index.ts';
import { writtenFigures } from './figures.ts';
import { dataset, readyStatus } from './testing/fixtures.ts';

describe('figures in the status', () => {
  it('are held for five seconds after they were written', () => {
    let now = 0;
    const written = new WrittenFigures(() => now, writtenFigures);
    const figures = (residentBytes: number) => dataset({}, readyStatus({ residentBytes }));
    assert.equal(written.holdMs(figures(0), 5_000), 0, 'at first sight nothing is known of a write');
    assert.equal(written.holdMs(figures(1), 5_000), 5_000);
    now = 4_000;
    assert.equal(written.holdMs(figures(1), 5_000), 1_000);
    now = 6_000;
    assert.equal(written.holdMs(figures(1), 5_000), 0);
    assert.equal(written.holdMs(figures(2), 5_000), 5_000);
    written.forget('team/llama');
    assert.equal(written.holdMs(figures(3), 5_000), 0);
  });
});
