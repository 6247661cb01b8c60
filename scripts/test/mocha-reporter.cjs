// Mocha's spec reporter on the terminal, and as JSON in the file named by the option `output` its counts and what failed. A
// process that does not end by itself after its tests fails: what it waits for is a handle that some code under test has left open.
const { writeFileSync } = require('node:fs');
const { reporters, Runner } = require('mocha');

const patienceMilliseconds = 15_000;

module.exports = class SpecWithCounts extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const failed = [];
    runner.on(Runner.constants.EVENT_TEST_FAIL, (test, error) => {
      failed.push(`${test.fullTitle()}: ${String(error.message).split('\n', 1)[0]}`);
    });
    runner.once(Runner.constants.EVENT_RUN_END, () => {
      writeFileSync(options.reporterOptions.output, JSON.stringify({ stats: this.stats, failed }));
    });
  }

  /** Called when the global teardown has ended. */
  done(failures, end) {
    // Does not keep the process itself.
    setTimeout(endWithHandles, patienceMilliseconds).unref();
    end(failures);
  }
};

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
