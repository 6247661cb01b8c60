import type { ControlService } from './generated/hearth/v1/control.ts';

type Service = typeof ControlService;

/** Calls of the control API with one answer. */
export type CallName = {
  [Name in keyof Service]: Service[Name]['responseStream'] extends false ? Name : never;
}[keyof Service];
/** Calls whose answer is a stream of messages. */
export type StreamName = Exclude<keyof Service, CallName>;
export type RequestOf<Name extends keyof Service> = Parameters<Service[Name]['requestSerialize']>[0];
export type ResponseOf<Name extends keyof Service> = ReturnType<Service[Name]['responseDeserialize']>;
