// Mocha's spec reporter on the terminal, and its counts as JSON in the file named by the option `output`.
const { writeFileSync } = require('node:fs');
const { reporters, Runner } = require('mocha');

module.exports = class SpecWithCounts extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    runner.once(Runner.constants.EVENT_RUN_END, () => {
      writeFileSync(options.reporterOptions.output, JSON.stringify({ stats: this.stats }));
    });
  }
};
