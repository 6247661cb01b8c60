// Mocha's spec reporter on the terminal, with the files that took longest, and as JSON in the file named by the option
// `output` its counts and what failed. A process that does not end by itself after its tests fails: what it waits for is a
// handle that some code under test has left open. One that is ended by SIGTERM, as it takes too long, still writes them,
// with the test that it was in.
const { writeFileSync } = require('node:fs');
const { relative } = require('node:path');
const { reporters, Runner } = require('mocha');

const endingMilliseconds = 15_000;
/** Files that are named for their time. */
const maxFiles = 12;
const minSeconds = 5;
/** Of the reason of a failure in the list of failures: its beginning says what was waited for, its end why it did not come. */
const firstCharacters = 300;
const lastCharacters = 1500;

module.exports = class SpecWithCounts extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const failed = [];
    runner.on(Runner.constants.EVENT_TEST_FAIL, (test, error) => {
      failed.push({ title: test.fullTitle(), file: fileOf(test), reason: reasonOf(error) });
    });
    const seconds = secondsByFile(runner);
    const write = (stats) => {
      printSlowest(seconds);
      writeFileSync(options.reporterOptions.output, JSON.stringify({ stats, failed }));
    };
    runner.once(Runner.constants.EVENT_RUN_END, () => write(this.stats));
    process.once('SIGTERM', () => {
      // No file: a run that had to be ended is not repeated.
      const failure = { title: whereIs(runner), file: '', reason: 'ended by SIGTERM; later tests were not run' };
      failed.push(failure);
      console.error(`\n${failure.title}: ${failure.reason}`);
      write({ ...this.stats, failures: this.stats.failures + 1 });
      process.exit(1);
    });
  }

  /** Called when the global teardown has ended. */
  done(failures, end) {
    // Does not keep the process itself.
    setTimeout(endWithHandles, endingMilliseconds).unref();
    end(failures);
  }
};

/** Relative to the working directory; hooks of a file have that of their suite. */
function fileOf(test) {
  const file = test.file ?? test.parent?.file;
  return file === undefined ? '' : relative(process.cwd(), file);
}

/** The test or hook that runs now. */
function whereIs(runner) {
  const { currentRunnable, test, suite } = runner;
  return (currentRunnable ?? test ?? suite)?.fullTitle() || 'before the first test';
}

/** The failure on one line: of values that differ, the difference, which assert writes on lines of its own. */
function reasonOf(error) {
  const line = String(error.message).replace(/\s+/g, ' ').trim();
  if (line.length <= firstCharacters + lastCharacters) return line;
  return `${line.slice(0, firstCharacters)} ... ${line.slice(-lastCharacters)}`;
}

/** Seconds that the suites of each file take, their hooks included; filled while the tests run. */
function secondsByFile(runner) {
  const seconds = new Map();
  let began = 0;
  runner.on(Runner.constants.EVENT_SUITE_BEGIN, ({ parent }) => {
    if (parent?.root) began = performance.now();
  });
  runner.on(Runner.constants.EVENT_SUITE_END, ({ parent, file }) => {
    if (!parent?.root || file === undefined) return;
    seconds.set(file, (seconds.get(file) ?? 0) + (performance.now() - began) / 1000);
  });
  return seconds;
}

function printSlowest(seconds) {
  const slowest = [...seconds].sort(([, a], [, b]) => b - a).filter(([, one]) => one >= minSeconds);
  if (slowest.length === 0) return;
  console.log('  seconds, with hooks:');
  for (const [file, one] of slowest.slice(0, maxFiles)) {
    console.log(`  ${one.toFixed(1).padStart(7)} ${relative(process.cwd(), file)}`);
  }
  const rest = slowest.length - maxFiles;
  if (rest > 0) console.log(`  and ${rest} more files of ${minSeconds} s or longer`);
  console.log('');
}

function endWithHandles() {
  const handles = process.getActiveResourcesInfo().filter((name) => name !== 'TTYWrap');
  console.error(`\nAll tests have run, and the process does not end: it waits for ${handles.join(', ')}.`);
  console.error('Some test has left them open; run its file alone with this reporter to find it.');
  // After Mocha's own handler, which makes the exit code that of the tests.
  process.on('exit', () => {
    process.exitCode = 1;
  });
  process.exit();
}
