export * from './call_error.ts';
export * from './control_api.ts';
export * from './error.ts';
export * from './format_bytes.ts';
export * from './generated/constants.ts';
export { errorTable } from './generated/error-codes.ts';
export * from './logger.ts';
export * from './unary_call.ts';
