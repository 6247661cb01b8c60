import { createLogger, HearthError } from '@hearth/common';
import { readConfiguration, usage } from './configuration.ts';
import { runDriver } from './driver.ts';
import { driverVersion } from './names.ts';

const args = process.argv.slice(2);
if (args.includes('--help')) {
  process.stdout.write(usage());
} else if (args.includes('--version')) {
  process.stdout.write(`${driverVersion()}\n`);
} else {
  process.exit(await main());
}

async function main(): Promise<number> {
  try {
    const configuration = readConfiguration(args, process.env);
    const { logLevel, logFormat, node } = configuration;
    return await runDriver(configuration, createLogger({ level: logLevel, format: logFormat, fields: { node } }));
  } catch (thrown) {
    const error = HearthError.from(thrown);
    process.stderr.write(`hearth-csi-node: ${error.message}\n`);
    return error.exitCode;
  }
}
