/** Origins for tests: scripted web servers, files in memory or in a folder, a hub, S3. */
export { FileOrigin } from './file_origin.ts';
export { gitId, HubServer } from './hub_server.ts';
export { LoopbackProxy } from './loopback_proxy.ts';
export { Nginx } from './nginx.ts';
export { OddS3, type S3Oddities } from './odd_s3.ts';
export { OriginGate } from './origin_gate.ts';
export { makeKeys, type S3Keys, S3Server } from './s3_server.ts';
export { type Handler, type ScriptedServer, sendFile, sendJson, startServer } from './scripted_server.ts';
