import type { ControlService } from './generated/hearth/v1/control.ts';

type Service = typeof ControlService;

/** Unary calls of the control API. */
export type CallName = {
  [Name in keyof Service]: Service[Name]['responseStream'] extends false ? Name : never;
}[keyof Service];
/** Server-streaming calls of the control API. */
export type StreamName = Exclude<keyof Service, CallName>;
export type RequestOf<Name extends keyof Service> = Parameters<Service[Name]['requestSerialize']>[0];
export type ResponseOf<Name extends keyof Service> = ReturnType<Service[Name]['responseDeserialize']>;
